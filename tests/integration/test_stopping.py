"""A signal ends the wait at once, whichever thread the kernel gives it to."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from exporter.commands.stopping import STOPPING, StopSignals


def in_another_thread(number: int) -> None:
    signal.pthread_kill(threading.get_ident(), number)


def to_the_process(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", STOPPING)
@pytest.mark.parametrize("send", [in_another_thread, to_the_process])
def test_a_signal_ends_the_wait_at_once(send, number):
    """A thread that traces (strace) or is about to run a handler gets none: another one does."""
    timer = threading.Timer(0.2, send, (number,))
    with StopSignals() as stop:
        assert stop.wait(0.01) == ""
        timer.start()
        begun = time.monotonic()
        assert stop.wait(30) == signal.Signals(number).name
        assert time.monotonic() - begun < 10
        assert stop.told
        # Told once, every later wait is over at once.
        assert stop.wait(30)
        assert time.monotonic() - begun < 10
    timer.join()


def test_what_was_there_before_is_there_again():
    before = [signal.getsignal(number) for number in STOPPING]
    with StopSignals():
        pass
    assert [signal.getsignal(number) for number in STOPPING] == before
    assert signal.set_wakeup_fd(-1) == -1
