"""Record JSON schemas of the custom resources that the chart makes, for tests/helm.

    go mod download github.com/prometheus-operator/prometheus-operator@v0.85.0
    go mod download github.com/kubeflow/spark-operator/v2@v2.5.1
    python -m tools.record_crd_schemas FILE.yaml ...    # the definitions in those modules

They are strict: a key that the definition does not have is an error, as with `kubectl --validate`.
Descriptions are left out: nobody reads them here.
"""

from __future__ import annotations

__all__ = ["main"]

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from tools.bare_schema import bare

FOLDER = Path(__file__).parent.parent / "tests" / "helm" / "crds"


class _Loader(yaml.SafeLoader):
    """Definitions have the plain value `=`, which YAML 1.1 gives a meaning."""


_Loader.add_constructor("tag:yaml.org,2002:value", lambda _, node: node.value)


def main(paths: list[str]) -> int:
    """Write one schema for each kind and version, named as kubeconform looks for them."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in paths:
        definition = yaml.load(Path(path).read_text("utf-8"), _Loader)["spec"]
        for version in definition["versions"]:
            schema = bare(version["schema"]["openAPIV3Schema"], _close)
            schema["properties"]["metadata"] = {"type": "object"}
            group = definition["group"].partition(".")[0]
            name = f"{definition['names']['kind'].lower()}-{group}-{version['name']}.json"
            (FOLDER / name).write_text(json.dumps(schema, sort_keys=True) + "\n", "utf-8")
            print(name)
    return 0


def _close(made: dict[str, Any]) -> None:
    """Let an object have the keys that its definition names and no others."""
    is_open = made.get("x-kubernetes-preserve-unknown-fields")
    if made.get("type") == "object" and "properties" in made and not is_open:
        made.setdefault("additionalProperties", False)
    if made.get("x-kubernetes-int-or-string"):
        made.pop("type", None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
