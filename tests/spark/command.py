"""`brokerwire-rollups` as a process that a test may kill, with all that it has started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

__all__ = ["JVM_FLAGS", "Command", "run_to_the_end"]

_ENTRY = "from spark_rollups.cli import entry_point; entry_point()"
_SECONDS = 600
# The JVM's first compiler only: tests end before the second one would pay. With that flag alone the
# code cache is 48 MiB, full after some tests, and the JVM interprets all that comes later.
JVM_FLAGS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"


class Command:
    """A running command and what it has said so far."""

    def __init__(self, *arguments):
        environment = os.environ | {
            "JAVA_TOOL_OPTIONS": JVM_FLAGS,
            "PYTHONPATH": str(Path(__file__).parents[2]),
        }
        self.lines = []
        self._process = subprocess.Popen(
            [sys.executable, "-c", _ENTRY, *map(str, arguments)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._process.stderr:
            self.lines.append(line)

    def said(self, words):
        return any(words in line for line in self.lines)

    def kill_when(self, condition):
        """Kill -9 the command and its JVM as soon as the condition holds."""
        deadline = time.monotonic() + _SECONDS
        while not condition():
            assert self._process.poll() is None, "".join(self.lines)
            assert time.monotonic() < deadline, "".join(self.lines)
            time.sleep(0.01)
        os.killpg(self._process.pid, signal.SIGKILL)
        self._finish()

    def end(self):
        code = self._process.wait(_SECONDS)
        self._finish()
        return code

    def _finish(self):
        self._process.wait(_SECONDS)
        self._reader.join(_SECONDS)
        self._process.stderr.close()


def run_to_the_end(*arguments):
    command = Command(*arguments)
    assert command.end() == 0, "".join(command.lines)
    return command
