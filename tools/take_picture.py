"""Run the demo and take the pictures of the README: `python -m tools.take_picture`.

Writes docs/page.png (Chromium's view of the page) and what the demo printed last into README.md.
"""

import subprocess
import sys
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
BEGIN, END = "<!-- demo -->\n", "<!-- /demo -->"
BROKERWIRE = Path(sys.executable).parent / "brokerwire"
URL = "http://127.0.0.1:10920/#range=5m"
DEMO_SECONDS = 40
# By then every sin has been seen often enough to be named.
PICTURE_AFTER_SECONDS = 30


def main() -> None:
    """Take both pictures."""
    demo = subprocess.Popen(
        [BROKERWIRE, "demo", "--for", f"{DEMO_SECONDS}s"],
        stdout=subprocess.PIPE,
        text=True,
        env={"COLUMNS": "120", "PATH": "/usr/bin:/bin"},
    )
    time.sleep(PICTURE_AFTER_SECONDS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1180, "height": 1000})
        page.goto(URL)
        page.wait_for_selector("[data-line]")
        # A group that is open shows its connections, and a second event their rates.
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.wait_for_timeout(2500)
        page.screenshot(path=ROOT / "docs" / "page.png")
        browser.close()
    printed, _ = demo.communicate(timeout=DEMO_SECONDS)
    last = printed[printed.rindex("CLIENT ") :]
    lines = [line.rstrip() for line in last.splitlines()]
    text = README.read_text()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    README.write_text(text[:begin] + "```text\n" + "\n".join(lines) + "\n```\n" + text[end:])


if __name__ == "__main__":
    main()
