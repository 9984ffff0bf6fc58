"""`brokerwire top`: the page's table in a terminal, until q or Ctrl-C."""

from __future__ import annotations

__all__ = ["add_parser", "keys_of"]

import os
import re
import sys
import time
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING

from exporter.commands.arguments import Commands, add_look_flags
from exporter.commands.output import console, rendered, say

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from rich.console import Console
    from rich.live import Live

    from exporter.commands.answers import Document
    from exporter.commands.stopping import StopSignals

EPILOG = """\
examples:
  brokerwire top                                       all clients of this host
  brokerwire top --agent http://127.0.0.1:10920        what a running agent sees

Keys: j k or arrows, enter opens a group or a connection's story, / filters,
g and b group, p pauses, ? helps, q quits. Into a pipe it writes one look, as
`brokerwire inspect` does."""

# As many looks as fit on a wide screen.
_LOOKS = 400
_READ_BYTES = 1024
_KEY = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Za-z]|.", re.DOTALL)
_SEQUENCES = {"\x1b[A": "up", "\x1b[B": "down", "\x1bOA": "up", "\x1bOB": "down"}
_NAMED = {"\r": "enter", "\n": "enter", "\x1b": "esc", "\x7f": "backspace", "\x08": "backspace"}


def add_parser(commands: Commands) -> None:
    """Add `top`."""
    parser = commands.add_parser(
        "top",
        help="watch in the terminal",
        description="Watch this host's Kafka clients in the terminal: groups, classes, waste.",
        epilog=EPILOG,
    )
    add_look_flags(parser)
    parser.set_defaults(execute=_execute)


def _execute(options: argparse.Namespace) -> int:
    screen = console()
    if not (screen.is_terminal and sys.stdin.isatty()):
        from exporter.commands.inspect import report
        from exporter.commands.looking import look

        say(rendered(screen, report(look(options), width=screen.width)))
        return 0
    from rich.live import Live

    from exporter.commands.looking import looks
    from exporter.commands.stopping import StopSignals

    with (
        StopSignals() as signals,
        _single_keys(sys.stdin.fileno()),
        Live(console=screen, screen=True, auto_refresh=False) as live,
    ):
        top = _Top(screen, live, signals)
        for document in looks(options, rest=top.rest):
            if top.is_over:
                break
            top.take(document)
    return 0


class _Top:
    """Follows documents and keys."""

    def __init__(self, screen: Console, live: Live, signals: StopSignals) -> None:
        from exporter.commands.top_state import State

        self._screen = screen
        self._live = live
        self._signals = signals
        self._state = State()
        self._document: Document | None = None
        self._rates: dict[str, tuple[float, float]] = {}
        self._past: deque[tuple[int, int]] = deque(maxlen=_LOOKS)

    @property
    def is_over(self) -> bool:
        return self._state.is_over or self._signals.told

    def take(self, document: Document) -> None:
        """Show a newer document."""
        from exporter.commands.top_state import rates_between
        from exporter.model import WASTED_CLASSES

        self._rates = rates_between(self._document, document)
        self._document = document
        wasted = sum(each.get("class") in WASTED_CLASSES for each in document["connections"])
        self._past.append((len(document["connections"]), wasted))
        self._draw()

    def rest(self, seconds: float) -> None:
        """Take keys until the next look; while it is paused there is none."""
        self._draw()
        until = time.monotonic() + seconds
        while not self.is_over:
            left = until - time.monotonic()
            if left <= 0 and not self._state.is_paused:
                return
            descriptor = sys.stdin.fileno()
            wait = None if self._state.is_paused else left
            if self._signals.wait(wait, beside=descriptor):
                return
            self._take_keys(descriptor)

    def _take_keys(self, descriptor: int) -> None:
        from exporter.commands.top_state import lines_of, press

        try:
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return
        for key in keys_of(data):
            lines = [] if self._document is None else lines_of(self._document, self._state)
            self._state = press(self._state, key, lines)
        self._draw()

    def _draw(self) -> None:
        from rich.text import Text

        from exporter.commands.top_screen import Shown, screen_of
        from exporter.commands.top_state import lines_of

        if self._document is None:
            self._live.update(Text("looking at the sockets ..."), refresh=True)
            return
        lines = lines_of(self._document, self._state)
        shown = Shown(self._document, lines, self._rates, tuple(self._past))
        width, height = self._screen.size
        self._live.update(screen_of(shown, self._state, width, height), refresh=True)


def keys_of(data: bytes) -> list[str]:
    """Return the keys in what a terminal sent; sequences that are not known are left out."""
    keys = []
    for sent in _KEY.findall(data.decode(errors="ignore")):
        if len(sent) == 1:
            keys.append(_NAMED.get(sent, sent))
        elif sent in _SEQUENCES:
            keys.append(_SEQUENCES[sent])
    return keys


@contextmanager
def _single_keys(descriptor: int) -> Iterator[None]:
    """Have the terminal give each key at once, unseen, and not wait for it; Ctrl-C stays one."""
    import termios
    import tty

    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    os.set_blocking(descriptor, False)
    try:
        yield
    finally:
        os.set_blocking(descriptor, True)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
