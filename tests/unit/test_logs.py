"""One event is one line, whatever a client calls itself, and a storm of them is a summary."""

import io
import json
import logging
import shlex

import pytest

from exporter.config.settings import LogSettings
from exporter.logs import LineHandler, set_up_logging
from exporter.text import printable

HOSTILE = [
    "a\nlevel=error event=forged",
    "\x1b[2J\x1b]0;title\x07",
    "\r\x00\x7f\x85\x9b31m",
    "\u2028\u2029\u202e\u2066\u200b\ufeff",
    "\ud800",
    'quote" and \\ backslash\\" =',
    "x" * 100_000,
    "\n" * 5_000,
    "",
]


class Clock:
    """A clock that only moves when told."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["logfmt", "json"])
def log(request, clock):
    stream = io.StringIO()
    handler = LineHandler(stream, request.param, now=clock)
    logger = logging.Logger("exporter.test")  # noqa: LOG001 -- one of our own, not the process's
    logger.addHandler(handler)
    logger.stream = stream
    logger.line_format = request.param
    yield logger
    handler.close()


def fields_of(line, line_format):
    if line_format == "json":
        return json.loads(line)
    return dict(part.split("=", 1) for part in shlex.split(line))


def lines_of(logger):
    return logger.stream.getvalue().split("\n")[:-1]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_name_cannot_leave_its_line(log, text):
    log.warning("client %s is gone", text, extra={"client_id": text})
    (line,) = lines_of(log)
    assert line.isprintable()
    assert len(line) < 4096
    fields = fields_of(line, log.line_format)
    assert {"time", "level", "logger", "event", "client_id"} == fields.keys()
    assert fields["level"] == "warn"


def test_values_are_escaped_so_that_they_can_be_told_apart(log):
    log.info("x", extra={"a": "1\n", "b": "1\\n"})
    fields = fields_of(lines_of(log)[0], log.line_format)
    assert fields["a"] != fields["b"]


def test_a_plain_line_reads_easily(clock):
    stream = io.StringIO()
    record = logging.makeLogRecord(
        {"name": "exporter.agent", "msg": "source %s is down", "args": ("java",), "created": 0.0}
        | {"levelno": logging.WARNING, "levelname": "WARNING", "attempts": 3}
    )
    LineHandler(stream, now=clock).emit(record)
    expected = (
        "time=1970-01-01T00:00:00.000+00:00 level=warn logger=exporter.agent"
        ' event="source java is down" attempts=3\n'
    )
    assert expected == stream.getvalue()


def test_a_traceback_is_a_part_of_its_line(log):
    try:
        int("bad\nnews")
    except ValueError:
        log.exception("poll stopped")
    (line,) = lines_of(log)
    assert "ValueError" in fields_of(line, log.line_format)["traceback"]


def test_values_that_do_not_fit_the_text_lose_no_line(log):
    log.warning("one %s and %s", *["only"])
    assert "only" in lines_of(log)[0]


def test_a_storm_is_ten_lines_and_a_summary(log, clock):
    for number in range(1000):
        log.warning("client %s is gone", number)
    assert len(lines_of(log)) == 10
    log.warning("something else")
    assert len(lines_of(log)) == 11
    clock.now = 1.0
    log.warning("client %s is gone", "again")
    summary, last = lines_of(log)[11:]
    assert "990" in summary
    assert "client %s is gone" in summary
    assert "again" in last


def test_what_was_left_out_is_told_at_the_end(log):
    for number in range(11):
        log.warning("client %s is gone", number)
    log.handlers[0].close()
    assert len(lines_of(log)) == 11


def test_names_in_the_message_text_do_not_get_round_the_limit(log, clock):
    """Each line has a key of its own here: only the budget of a minute holds."""
    for number in range(100_000):
        log.warning(f"client {number} " + "x" * 200)  # noqa: G003 -- the mistake meant here
    assert len(log.stream.getvalue()) <= 64 * 1024
    clock.now = 60.0
    log.warning("calm")
    assert "minute" in lines_of(log)[-2]
    assert "calm" in lines_of(log)[-1]


def test_a_stream_that_is_gone_stops_nothing(clock):
    class Gone(io.StringIO):
        def write(self, _):
            raise BrokenPipeError

    closed = io.StringIO()
    closed.close()
    for stream in (Gone(), closed):
        handler = LineHandler(stream, now=clock)
        handler.emit(logging.makeLogRecord({"msg": "x"}))
        handler.close()


@pytest.mark.parametrize(
    ("level", "shown"),
    [("debug", "dIWE"), ("info", "IWE"), ("warn", "WE"), ("error", "E")],
)
def test_the_level_is_taken_and_a_second_set_up_replaces_the_first(level, shown):
    root = logging.getLogger()
    before = root.level, list(root.handlers)
    stream = io.StringIO()
    try:
        set_up_logging(LogSettings(level="debug"), io.StringIO())
        set_up_logging(LogSettings(level=level), stream)
        logger = logging.getLogger("exporter.test")
        for write, event in (
            (logger.debug, "d"),
            (logger.info, "I"),
            (logger.warning, "W"),
            (logger.error, "E"),
        ):
            write(event)
    finally:
        logging.captureWarnings(capture=False)
        root.setLevel(before[0])
        root.handlers[:] = before[1]
    events = "".join(line.rsplit("event=", 1)[1] for line in stream.getvalue().splitlines())
    assert shown == events


@pytest.mark.parametrize("longest", [1, 2, 5, 6, 7, 100])
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_printable_text_keeps_its_length(text, longest):
    safe = printable(text, longest)
    assert safe.isprintable()
    assert len(safe) <= longest


def test_printable_leaves_plain_text_alone():
    assert printable("Zürich 東京 \\n") == "Zürich 東京 \\n"
