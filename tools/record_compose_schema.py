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

from tools.bare_schema import bare

RECORDED = Path(__file__).parent.parent / "tests" / "service" / "compose-spec.json"


def main(arguments: list[str]) -> int:
    """Write the schema without its descriptions."""
    (path,) = arguments
    schema = bare(json.loads(Path(path).read_text("utf-8")))
    RECORDED.write_text(json.dumps(schema, sort_keys=True) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
