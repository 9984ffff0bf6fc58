"""What the image leaves out of the standard library is nothing that the agent imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from image.collect import UNUSED

ROOT = Path(__file__).parents[2]
# None in sys.modules makes an import of that name fail, as in the image.
PROGRAM = """
import pkgutil, sys
sys.modules.update(dict.fromkeys({unused!r}))
import exporter
for module in pkgutil.walk_packages(exporter.__path__, "exporter."):
    __import__(module.name)
"""


def test_every_module_of_the_agent_can_be_imported_in_the_image():
    names = sorted(each for each in UNUSED if each.isidentifier() and each != "__pycache__")
    assert "tkinter" in names
    program = PROGRAM.format(unused=names)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
