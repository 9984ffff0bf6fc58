"""Writes dashboards/ from the code; `--check` only compares."""

from __future__ import annotations

__all__ = ["main", "texts"]

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from tools.dashboards import agent, brokers, clients, fleet
from tools.dashboards.layout import laid_out
from tools.dashboards.links import PAGES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.dashboards.layout import Page

REPOSITORY = Path(__file__).parents[2]
FOLDER = REPOSITORY / "dashboards"
_REFERENCE = REPOSITORY / "docs" / "dashboards.md"
_PAGES = (clients.PAGE, brokers.PAGE, agent.PAGE, fleet.PAGE)


def texts() -> Iterator[tuple[Path, str]]:
    """Yield each file and what it should hold."""
    yield _REFERENCE, _filled(_REFERENCE.read_text("utf-8"))
    for page in _PAGES:
        made = json.dumps(laid_out(page), cls=JSONEncoder, indent=2, sort_keys=True)
        yield FOLDER / f"{page.uid}.json", f"{made}\n"


def _filled(page: str) -> str:
    """Put a list of the panels between the markers of the page about them."""
    before, marker, rest = page.partition("<!-- generated")
    line, _, rest = rest.partition("\n")
    after = rest.partition("<!-- end -->")[2]
    told = "\n".join(_told(each) for each in _PAGES)
    return f"{before}{marker}{line}\n\n{told}\n<!-- end -->{after}"


def _told(page: Page) -> str:
    lines = [f"### {PAGES[page.uid]}", "", f"`/d/{page.uid}`. {page.text}", ""]
    lines += [f"Variables: {', '.join(f'`{label}`' for label in page.labels)}.", ""]
    lines += ["| row | panels |", "| --- | --- |"]
    for row in page.rows:
        titles = " · ".join(panel.build().title or "" for panel in row.panels)
        lines.append(f"| {row.title}{' (folded)' if row.folded else ''} | {titles} |")
    return "\n".join([*lines, ""])


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
