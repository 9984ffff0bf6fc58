"""Processes of the lab: started with a log file, watched, and ended by pid whatever happens."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import weakref
from typing import IO, TYPE_CHECKING, TypeVar

from tests.lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

__all__ = ["ManagedProcess", "wait_until"]

Answer = TypeVar("Answer")


class ManagedProcess:
    """One child process; collected or left at exit, it is killed.

    Its standard input is a pipe that nobody else holds: the programs of the lab end
    themselves when it closes, so even a killed test run leaves nothing behind.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        answers: bool = False,
    ) -> None:
        """Start `command`; with `answers`, its standard output is a pipe, not the log."""
        self.name = name
        self.log = log
        self._log_start = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if answers else output,
                stderr=output,
                env={**os.environ, **(environment or {})},
                start_new_session=True,  # an interrupt at the keyboard is for the tests alone
            )
        self.frozen = False
        self._finalizer = weakref.finalize(self, _end, self._child)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._child.pid

    @property
    def stdin(self) -> IO[bytes]:
        """The pipe to the process."""
        return _pipe(self._child.stdin)

    @property
    def stdout(self) -> IO[bytes]:
        """The pipe from the process, if it was asked for."""
        return _pipe(self._child.stdout)

    @property
    def running(self) -> bool:
        """Whether the process has not ended; a stopped (frozen) one runs in this sense."""
        return self._child.poll() is None

    def freeze(self) -> None:
        """Stop it as SIGSTOP does: its sockets stay, nobody answers."""
        self._signal(signal.SIGSTOP)
        self.frozen = True

    def thaw(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)
        self.frozen = False

    def kill(self) -> None:
        """End it without a farewell and wait for the end."""
        _end(self._child)

    def terminate(self, *, timeout: float) -> None:
        """Ask it to end, and kill it if it has not done so after `timeout` seconds.

        A frozen process is killed at once: it would not hear.
        """
        if not self.frozen:
            self._signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(timeout)
        self.kill()

    def log_text(self) -> str:
        """Return what this process has written to its log, not what one before it has."""
        return self.log.read_bytes()[self._log_start :].decode(errors="replace")

    def failure(self, what: str) -> LabError:
        """Return an error that says what went wrong, with the end of the log."""
        state = "running" if self.running else f"ended with {self._child.returncode}"
        tail = "\n".join(self.log_text().splitlines()[-40:])
        return LabError(f"{self.name} ({state}): {what}; the end of its log:\n{tail}")

    def _signal(self, number: signal.Signals) -> None:
        if not self.running:
            raise self.failure(f"cannot be sent {number.name}")
        self._child.send_signal(number)


def wait_until(
    what: str, ask: Callable[[], Answer], *, timeout: float = 60.0, interval: float = 0.1
) -> Answer:
    """Call `ask` until it returns something true, and return that.

    Raises:
        LabError: `timeout` seconds have passed; the last answer is in the message.

    """
    deadline = time.monotonic() + timeout
    while True:
        answer = ask()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise LabError(f"waited {timeout:g} s for {what}; last answer: {answer!r}")
        time.sleep(interval)


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise LabError("the process was started without this pipe")
    return stream


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.kill()  # also ends a stopped process
        child.wait()
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            # A pipe to a dead process cannot be flushed; there is nothing left to say to it.
            with contextlib.suppress(BrokenPipeError):
                stream.close()
