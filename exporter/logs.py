"""Logging: one event is one line, whatever a client calls itself, and at a limited rate.

A line is written as key=value (logfmt) or JSON. What a client or a file controls is escaped and
cut, so that no name can forge a line or drive a terminal. Payloads and secrets are never logged:
that is up to the callers, who log names and figures only.
"""

from __future__ import annotations

__all__ = ["LineHandler", "set_up_logging"]

import json
import logging
import math
import sys
import time
from collections import OrderedDict
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TextIO

from exporter.text import LONGEST_VALUE, escaped, joined

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from exporter.config.settings import LogSettings

LONGEST_TRACEBACK = 8192
LINES_PER_SECOND = 10
# A hostile client can invent keys; the oldest is forgotten, its summary written before.
MOST_KEYS = 256
# All keys together: what a name that changes with every line cannot get round.
BYTES_PER_MINUTE = 64 * 1024
MINUTE = 60.0

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING}
_LEVEL_NAMES = {"WARNING": "warn", "CRITICAL": "error"}
_OWN_ATTRIBUTES = frozenset(
    {*logging.makeLogRecord({}).__dict__, "message", "asctime", "taskName"},
)


def set_up_logging(settings: LogSettings, stream: TextIO | None = None) -> LineHandler:
    """Send all log lines of the process to a stream, standard error by default."""
    handler = LineHandler(stream or sys.stderr, settings.format)
    root = logging.getLogger()
    for old in list(root.handlers):
        if isinstance(old, LineHandler):
            root.removeHandler(old)
            old.close()
    root.addHandler(handler)
    root.setLevel(_LEVELS.get(settings.level, logging.ERROR))
    handler.budget_bytes = None if settings.level == "debug" else BYTES_PER_MINUTE
    logging.captureWarnings(capture=True)
    return handler


@dataclass(slots=True)
class _Window:
    """How often one key was logged in its current second."""

    began: float
    lines: int = 0
    suppressed: int = 0


@dataclass(slots=True)
class _Budget:
    """How much was written in the current minute, all keys together."""

    began: float
    written: int = 0
    suppressed: int = 0


class LineHandler(logging.Handler):
    """Writes records as single lines, ten per second and key at most.

    A key is a logger and the text of a message before its values are filled in. What is left out
    is told in one line with `suppressed=N` as soon as its second is over.
    """

    def __init__(
        self,
        stream: TextIO,
        line_format: Literal["logfmt", "json"] = "logfmt",
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self.budget_bytes: int | None = BYTES_PER_MINUTE
        self._stream = stream
        self._write_line = _json_line if line_format == "json" else _logfmt_line
        self._now = now
        self._windows: OrderedDict[tuple[str, str], _Window] = OrderedDict()
        self._minute = _Budget(now())

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; a stream that is gone is no reason to stop the agent."""
        try:
            now = self._now()
            self._tell_suppressed(now)
            if self._may_write(record, now):
                self._write(_fields_of(record), now)
        except (OSError, ValueError):  # a closed pipe, a closed stream
            return

    def close(self) -> None:
        """Tell what was left out, then let go of the stream (which is not ours to close)."""
        try:
            with self.lock or nullcontext():
                self._tell_suppressed(math.inf)
        except (OSError, ValueError):
            return
        finally:
            super().close()

    def _may_write(self, record: logging.LogRecord, now: float) -> bool:
        key = (record.name, str(record.msg)[:LONGEST_VALUE])
        window = self._windows.get(key)
        if window is None:
            while len(self._windows) >= MOST_KEYS:
                oldest = next(iter(self._windows))
                self._summary(oldest, self._windows.pop(oldest), now)
            window = self._windows[key] = _Window(now)
        if window.lines >= LINES_PER_SECOND:
            window.suppressed += 1
            return False
        window.lines += 1
        return True

    def _tell_suppressed(self, now: float) -> None:
        for key, window in list(self._windows.items()):
            if now - window.began >= 1:
                del self._windows[key]
                self._summary(key, window, now)
        if now - self._minute.began >= MINUTE:
            left_out, self._minute = self._minute.suppressed, _Budget(now)
            if left_out:
                event = "lines left out: over the limit of a minute"
                self._write(_own_fields(event, suppressed=left_out), now)

    def _summary(self, key: tuple[str, str], window: _Window, now: float) -> None:
        if window.suppressed:
            event = "lines left out: too many alike"
            fields = _own_fields(event, of=key[1], logger=key[0], suppressed=window.suppressed)
            self._write(fields, now)

    def _write(self, fields: Mapping[str, Any], now: float) -> None:
        line = self._write_line(fields) + "\n"
        # On the way out (`now` is infinite) the last summaries are written whatever they cost.
        full = (
            self.budget_bytes is not None and self._minute.written + len(line) > self.budget_bytes
        )
        if full and now < math.inf:
            self._minute.suppressed += 1
            return
        self._minute.written += len(line)
        self._stream.write(line)
        self._stream.flush()


def _own_fields(event: str, **fields: Any) -> dict[str, Any]:
    return {"time": _time(time.time()), "level": "warn", "event": event, **fields}


def _fields_of(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "time": _time(record.created),
        "level": _LEVEL_NAMES.get(record.levelname, record.levelname.lower()),
        "logger": record.name,
        "event": _message(record),
    }
    extra = {key: value for key, value in record.__dict__.items() if key not in _OWN_ATTRIBUTES}
    fields.update(sorted(extra.items()))
    if record.exc_info:
        fields["traceback"] = logging.Formatter().formatException(record.exc_info)
    return fields


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError, KeyError):  # values that do not fit the text: show both
        return f"{record.msg} {record.args}"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _longest(key: str) -> int:
    return LONGEST_TRACEBACK if key == "traceback" else LONGEST_VALUE


def _logfmt_line(fields: Mapping[str, Any]) -> str:
    return " ".join(f"{key}={_logfmt_value(key, value)}" for key, value in fields.items())


def _logfmt_value(key: str, value: Any) -> str:
    # A backslash is doubled, so that an escape can be told from its own spelling.
    marks = {"\\": "\\\\", '"': '\\"'}
    safe = joined((marks.get(letter) or escaped(letter) for letter in str(value)), _longest(key))
    needs_quotes = not safe or any(letter in ' ="' for letter in safe)
    return f'"{safe}"' if needs_quotes else safe


def _json_line(fields: Mapping[str, Any]) -> str:
    return json.dumps({key: _json_value(key, value) for key, value in fields.items()})


def _json_value(key: str, value: Any) -> Any:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    text = str(value)
    longest = _longest(key)
    # json.dumps escapes what is not ASCII; only the length is left to us.
    return text if len(text) <= longest else text[: longest - 1] + "…"
