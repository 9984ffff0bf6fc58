"""Make the picture of docs/fleet.md: `python -m tools.take_fleet_picture`.

Simulates a fleet of two weeks, rolls it up, and takes Chromium's view of the report.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "report.png"
ROLLUPS = Path(sys.executable).parent / "brokerwire-rollups"
FLEET = ("--agents", "40", "--hours", "10", "--weeks", "2", "--seed", "11", "--shards", "4")
WIDTH, HEIGHT = 1080, 2400


def main() -> None:
    """Take the picture."""
    with tempfile.TemporaryDirectory() as folder:
        fleet, tables, page = (str(Path(folder) / name) for name in ("fleet", "tables", "r.html"))
        faults = "lost=0.0005,restarts=0.1,garbage=0.0002"
        run("simulate", *FLEET, "--faults", faults, "--no-truth", "--out", fleet)
        run("batch", "--input", f"{fleet}/journal", "--tables", tables)
        run("report", "--tables", tables, "--out", page)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path="/usr/bin/chromium", args=["--no-sandbox"]
            )
            view = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
            view.goto(f"file://{page}")
            view.screenshot(path=PICTURE)
            browser.close()


def run(*arguments: str) -> None:
    """Run a command of the rollups."""
    subprocess.run([ROLLUPS, *arguments], check=True)


if __name__ == "__main__":
    main()
