"""The tools that the chart's tests run, and the schemas that they compare with."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).parents[2]
CHART = REPOSITORY / "helm" / "brokerwire"
APPLICATION = REPOSITORY / "examples" / "helm" / "orders"
CRDS = Path(__file__).parent / "crds"
SHAPES = sorted((CHART / "ci").glob("*-values.yaml"))
# What the chart says it supports, and the newest that the schemas know.
OLDEST, NEWEST = "1.25.0", "1.37.0"


def tool(name: str) -> str:
    """Return the path of a program, or skip; in CI a skip is a failure."""
    cache = Path(os.environ.get("BROKERWIRE_CACHE") or REPOSITORY / ".cache")
    built = cache / "helm" / "current" / name
    found = str(built) if built.exists() else shutil.which(name)
    if found is None:
        reason = f"{name} is missing: run tools/install_helm_tools.sh"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def run(*command: str | Path, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; helm keeps its files out of the home folder."""
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        input=text,
        timeout=120,
        check=False,
    )


def render(chart: Path, *arguments: str | Path, version: str = NEWEST) -> str:
    """Return what a chart renders to; AssertionError with helm's words where it does not."""
    done = run(
        tool("helm"), "template", "bw", chart, "--kube-version", version, "--namespace", "shop",
        *arguments,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def application_chart(folder: Path) -> Path:
    """Copy an application's chart with ours as its dependency, as `helm dependency update` does."""
    shutil.copytree(CHART, folder / "helm" / "brokerwire")
    chart = shutil.copytree(APPLICATION, folder / "examples" / "helm" / "orders")
    done = run(tool("helm"), "dependency", "update", chart)
    assert done.returncode == 0, done.stderr
    return chart


def objects_of(text: str) -> list[dict[str, Any]]:
    return [found for found in yaml.safe_load_all(text) if found]


def deployment_in(text: str) -> dict[str, Any]:
    """Return the only Deployment of what was rendered."""
    (found,) = [each for each in objects_of(text) if each["kind"] == "Deployment"]
    return found


def sidecar_of(deployment: dict[str, Any], where: str) -> dict[str, Any]:
    """Return our container from a list of the pod's spec, such as initContainers."""
    spec = deployment["spec"]["template"]["spec"]
    found: dict[str, Any]
    (found,) = [each for each in spec.get(where, ()) if each["name"] == "brokerwire"]
    return found


def write_schemas(folder: Path, version: str) -> None:
    """Write a Kubernetes version's schemas the way kubeconform reads them: each whole in itself.

    kubernetes-validate has them offline, with references into one file of definitions.
    """
    minor = version.rsplit(".", 1)[0]
    source = files("kubernetes_validate") / "kubernetes-json-schema"
    names = [each.name for each in source.iterdir() if each.name.startswith(f"v{minor}.")]
    (name,) = [each for each in names if each.endswith("-local-strict")]
    texts = {each.name: each.read_text("utf-8") for each in (source / name).iterdir()}
    definitions = json.loads(texts.pop("_definitions.json"))
    definitions = definitions.get("$defs") or definitions["definitions"]
    target = folder / f"v{version}-standalone-strict"
    target.mkdir(parents=True)
    for file, text in texts.items():
        schema = json.loads(text)
        if "kind" in schema.get("properties", {}):
            needed: dict[str, Any] = {}
            whole = _with_local_references(schema, definitions, needed)
            (target / file).write_text(json.dumps({**whole, "definitions": needed}))


def _with_local_references(node: Any, definitions: dict[str, Any], needed: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_with_local_references(child, definitions, needed) for child in node]
    if not isinstance(node, dict):
        return node
    made = {}
    for key, child in node.items():
        if key == "$ref" and isinstance(child, str):
            name = child.rsplit("/", 1)[1]
            if name not in needed:
                needed[name] = {}
                needed[name] = _with_local_references(definitions[name], definitions, needed)
            made[key] = f"#/definitions/{name}"
        else:
            made[key] = _with_local_references(child, definitions, needed)
    return made


def conform(text: str, schemas: Path, version: str) -> subprocess.CompletedProcess[str]:
    """Compare objects with the schemas of a Kubernetes version and of the operators."""
    crds = f"{CRDS}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    return run(
        tool("kubeconform"), "-strict", "-summary", "-kubernetes-version", version,
        "-schema-location", schemas, "-schema-location", crds, "-",
        text=text,
    )  # fmt: skip
