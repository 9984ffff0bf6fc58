"""Processes that burn CPU time beside a lab, as busy neighbours do."""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.lab.processes import ManagedProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["burning"]

# It ends with its standard input, as all programs of the lab do.
_PROGRAM: Final = """
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
while True:
    sum(range(10_000))
"""


@contextmanager
def burning(processes: int = 2) -> Iterator[None]:
    """Keep so many CPUs busy until the end of the block."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for number in range(processes):
            command = [sys.executable, "-c", _PROGRAM]
            burner = ManagedProcess(f"burner-{number}", command, folder / f"{number}.log")
            stack.callback(burner.kill)
        yield
