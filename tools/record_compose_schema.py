"""Record the compose specification's own JSON schema, for tests/service.

    go mod download github.com/compose-spec/compose-go/v2@v2.10.1
    python -m tools.record_compose_schema FILE     # schema/compose-spec.json in that module

It is what `docker compose config` compares with. Descriptions are left out: nobody reads them here.
"""

from __future__ import annotations

__all__ = ["main"]

import json
import sys
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parent.parent / "tests" / "service" / "compose-spec.json"


def main(arguments: list[str]) -> int:
    """Write the schema without its descriptions."""
    (path,) = arguments
    schema = _bare(json.loads(Path(path).read_text("utf-8")))
    RECORDED.write_text(json.dumps(schema, sort_keys=True) + "\n", "utf-8")
    return 0


def _bare(node: Any) -> Any:
    if isinstance(node, list):
        return [_bare(child) for child in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _bare(child)
        for key, child in node.items()
        if not (key == "description" and isinstance(child, str))
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
