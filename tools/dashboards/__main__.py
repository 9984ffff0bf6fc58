"""Writes dashboards/ from the code; `--check` only compares."""

from __future__ import annotations

__all__ = ["main", "texts"]

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from tools.dashboards import agent, brokers, clients
from tools.dashboards.layout import laid_out

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).parents[2]
FOLDER = REPOSITORY / "dashboards"
_PAGES = (clients.PAGE, brokers.PAGE, agent.PAGE)


def texts() -> Iterator[tuple[Path, str]]:
    """Yield each file and what it should hold."""
    for page in _PAGES:
        made = json.dumps(laid_out(page), cls=JSONEncoder, indent=2, sort_keys=True)
        yield FOLDER / f"{page.uid}.json", f"{made}\n"


def main(arguments: list[str]) -> int:
    """Write the files, or tell which are not what the code says."""
    is_check = "--check" in arguments
    different = [
        (path, text)
        for path, text in texts()
        if not path.exists() or path.read_text("utf-8") != text
    ]
    for path, text in different:
        if not is_check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
        done = "differs from the code: run make dashboards" if is_check else "written"
        print(f"{path.relative_to(REPOSITORY)}: {done}")
    return 1 if different and is_check else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
