"""The worst input of each kind that the default settings let in: what it adds to memory at most."""

from __future__ import annotations

import subprocess
import sys

import pytest

from exporter.clients.json_values import BYTES_OF_A_VALUE
from exporter.config.settings import JavaSourceSettings, StatisticsSettings

MIB = 1024 * 1024
# The chart's limit is 256 MiB; an agent with 10,000 connections takes 100 MiB before it reads more.
MOST_ADDED = 44 * MIB
STATISTICS_BYTES = StatisticsSettings().max_bytes
PAGE_BYTES = JavaSourceSettings(name="s", url="http://127.0.0.1:1/").max_bytes

READ_STATISTICS = """
from exporter.clients.librdkafka import readings_from_statistics

def read(body):
    readings_from_statistics(body, source="s", received_at=1.0)
"""
READ_PAGE = """
from exporter.config.settings import JavaSourceSettings
from exporter.http.fetch import Response
from exporter.clients.java import JavaSource

def read(body):
    settings = JavaSourceSettings(name="s", url="http://127.0.0.1:1/")
    answer = Response(
        where="s", content_type="text/plain", body=body, begun_at=1.0, ended_at=1.0
    )
    JavaSource(settings, lambda *_, **__: answer).read()
"""
MEASURE = """
import sys
from pathlib import Path
from exporter.errors import SourceError

def peak():
    # Not ru_maxrss, which begins with what the parent had.
    [line] = [each for each in Path("/proc/self/status").open() if each.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024

body = sys.stdin.buffer.read()
before, outcome = peak(), "taken"
try:
    read(body)
except SourceError:
    outcome = "refused"
print(peak() - before, outcome)
"""


def filled(begin, item, end, size):
    """As many copies of an item as fit."""
    return begin + item * ((size - len(begin) - len(end)) // len(item)) + end


def numbered(item, separator, size):
    count = size // (len(item % 0) + len(separator))
    return separator.join(item % number for number in range(count))


def of_json(size, begin, end):
    room = size - len(begin) - len(end)
    values = size // BYTES_OF_A_VALUE - 10
    pairs = b",".join(b'"%05x":9999' % number for number in range(values))
    return {
        "lists": begin + filled(b"[", b"[],", b"1]", room) + end,
        "objects": begin + filled(b"[", b'{"":1e9},', b"1]", room) + end,
        "numbers": begin + filled(b"[", b"1e9,", b"1]", room) + end,
        # As many values as are let in; the rest of the room is blank.
        "pairs": begin + b"{" + pairs + b"}".rjust(room - len(pairs) - 1) + end,
        "wide text": begin + filled(b'"', b"a", "\U0001f600".encode() + b'"', room) + end,
    }


STATISTICS = of_json(STATISTICS_BYTES, b'{"client_id":"x","brokers":{},"x":', b"}")
PAGES = of_json(PAGE_BYTES, b'{"status":200,"value":', b"}") | {
    "wide Prometheus text": filled(b"", b"a", "\U0001f600".encode(), PAGE_BYTES),
    "Prometheus clients": numbered(
        b'kafka_producer_connection_count{client_id="%07x",} 1.0\n', b"", PAGE_BYTES
    ),
    "Prometheus nodes": numbered(
        b'kafka_producer_node_request_total{client_id="a",node_id="node-%07x",} 1.0\n',
        b"",
        PAGE_BYTES,
    ),
}


def added(reader, body):
    """Bytes of memory that reading this takes at most, and whether it was taken."""
    done = subprocess.run(
        [sys.executable, "-c", reader + MEASURE],
        input=body,
        stdout=subprocess.PIPE,
        check=True,
        timeout=120,
    )
    most, outcome = done.stdout.split()
    return int(most), outcome.decode()


@pytest.mark.parametrize("kind", STATISTICS)
def test_the_worst_statistics_that_are_let_in_leave_room_in_the_charts_limit(kind):
    assert len(STATISTICS[kind]) <= STATISTICS_BYTES
    assert added(READ_STATISTICS, STATISTICS[kind])[0] < MOST_ADDED


@pytest.mark.parametrize("kind", PAGES)
def test_the_worst_page_that_is_let_in_leaves_room_in_the_charts_limit(kind):
    assert len(PAGES[kind]) <= PAGE_BYTES
    assert added(READ_PAGE, PAGES[kind])[0] < MOST_ADDED


def test_a_client_of_two_thousand_partitions_is_within_the_limits():
    partition = b'"%d":{' + b",".join(b'"value_%02d_ab":%d' % (n, n) for n in range(48)) + b"}"
    partitions = b",".join(partition % number for number in range(2000))
    body = b'{"client_id":"x","brokers":{},"topics":{"t":{"partitions":{' + partitions + b"}}}}"
    assert len(body) <= STATISTICS_BYTES
    assert added(READ_STATISTICS, body)[1] == "taken"
