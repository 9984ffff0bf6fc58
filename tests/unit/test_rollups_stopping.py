"""A stream that is told to stop stops by itself, however the signal meets it."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from spark_rollups.commands.stopping import StopSignals
from spark_rollups.commands.stream import follow


class Query:
    """A query behind one connection to the JVM, on which only one question can be asked at once."""

    def __init__(self, looks=1_000_000):
        self._looks = looks
        self._asked = False
        self.stopped = False

    def _ask(self, seconds=0.0):
        if self._asked:
            raise RuntimeError("reentrant call")
        self._asked = True
        time.sleep(seconds)
        self._asked = False

    @property
    def isActive(self):  # noqa: N802 -- PySpark's name
        self._ask(0.3)
        self._looks -= 1
        return self._looks > 0 and not self.stopped

    def stop(self):
        self._ask()
        self.stopped = True

    def awaitTermination(self):  # noqa: N802 -- PySpark's name
        self._ask()


class Tables:
    """What follows a stream."""

    def __init__(self):
        self.done = []

    def refresh_if_due(self):
        self.done.append("looked")

    def refresh(self):
        self.done.append("made")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_query_and_the_tables_are_made(number):
    """The signal comes while Spark is asked something, as nearly all of them do."""
    query, tables, said = Query(), Tables(), []
    before = signal.getsignal(number)
    bell = threading.Timer(0.1, os.kill, (os.getpid(), number))
    with StopSignals() as signals:
        bell.start()
        follow(tables, query, signals, said.append)
    bell.join()
    assert query.stopped
    assert tables.done == ["made"]
    assert said == [f"{number.name}: stopping; the next run goes on from here"]
    assert signal.getsignal(number) is before


def test_a_query_that_ends_by_itself_is_not_stopped():
    query, tables, said = Query(looks=2), Tables(), []
    with StopSignals() as signals:
        follow(tables, query, signals, said.append)
    assert not query.stopped
    assert tables.done == ["looked", "made"]
    assert said == []


def test_a_second_signal_ends_a_command_that_hangs():
    program = (
        "import os, signal, time\n"
        "from spark_rollups.commands.stopping import StopSignals\n"
        "with StopSignals() as signals:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    print(signals.wait(9), flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(9)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout == "SIGINT\n"
    assert done.returncode == -signal.SIGINT
