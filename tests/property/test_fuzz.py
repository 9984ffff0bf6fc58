"""Every parser of what others send: mutations of good input end in a value or a declared error.

Half a second of processor time for each target in every run, FUZZ_SECONDS=600 on demand. Input that
fails is written to tests/golden/crashes/TARGET and is tried first from then on.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import random
import struct
import time
from pathlib import Path

import h11
import pytest

from exporter.clients.java import clients_from_prometheus
from exporter.clients.jolokia import clients_from_jolokia
from exporter.clients.librdkafka import readings_from_statistics
from exporter.config.files import settings_from_text
from exporter.errors import ConfigError, SourceError
from exporter.http.conversation import Allowance, Bounds, Conversation
from exporter.http.messages import Peer, Response
from exporter.http.web_config_reader import read_web_config
from exporter.kernel.destroy_events import DestroyEvents
from exporter.kernel.dump_reader import DumpReader
from tests.unit.sock_diag_records import FakeDiag

GOLDEN = Path(__file__).parents[1] / "golden"
CRASHES = GOLDEN / "crashes"
SECONDS = float(os.environ.get("FUZZ_SECONDS", "0.5"))
# Of one input of 64 KiB at most; a machine that is busy makes no input slow by this clock.
MOST_SECONDS = 1.0
MOST_BYTES = 64 * 1024
TOKENS = [
    b"\x00", b"\xff", b"\r\n", b"\n", b'"', b"\\", b"{", b"}", b"[", b"]", b":", b",", b"null",
    b"NaN", b"1e400", b"-1", b"9007199254740993", b"\\ud800", b"&a", b"*a", b"<<:", b"!!python/x",
    b"node-2147483648", b"# EOF", b"Transfer-Encoding: chunked\r\n", b"Content-Length: 1\r\n",
    "\u2028".encode(), "\u202e".encode(), struct.pack("<I", 0), struct.pack("<I", 2**32 - 1),
]  # fmt: skip


def of(*patterns):
    """The beginnings of golden files, as seeds."""
    found = [path for pattern in patterns for path in sorted(GOLDEN.glob(pattern))]
    assert found, patterns
    return [path.read_bytes()[:MOST_BYTES] for path in found]


def datagrams():
    """The first datagram of each recording, which has its length before it."""
    return [raw[4 : 4 + struct.unpack_from("<I", raw)[0]] for raw in of("sock_diag/*.bin")]


def read_dump(raw):
    reader = DumpReader()
    reader.start(1, 0.0)
    size = min(len(raw), len(reader.buffer))
    reader.buffer[:size] = raw[:size]
    reader.feed(size)
    reader.finish()


def read_events(raw):
    heard = FakeDiag(groups=5)
    events = DestroyEvents((), open_socket=lambda _groups: heard)
    heard.script.append(raw[:8192])
    events.drain(0.0)


class Said:
    """A stream that says one thing and ends."""

    def __init__(self, data):
        self._data = data

    async def read(self, most):
        first, self._data = self._data[:most], self._data[most:]
        return first

    async def write(self, _data):
        pass

    async def finish(self):
        pass

    async def discard(self, _most):
        self._data = b""


class App:
    async def admit(self, _request):
        return 100

    async def respond(self, _request, body):
        assert len(body) <= 100
        return Response()


def read_request(raw):
    allowance = Allowance(1000)
    talk = Conversation(App(), Bounds(), allowance, Peer("127.0.0.1", 1), is_local=True)
    try:
        asyncio.run(talk.run(Said(raw)))
    finally:
        assert allowance.take(1000)


REQUESTS = [
    b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 2,
    b"POST /api/v1/statistics HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
]
WEB = [b"tls_server_config:\n  cert_file: a\n  key_file: b\nbasic_auth_users:\n  a: $2y$10$x\n"]
TARGETS = {
    "netlink": (read_dump, SourceError, datagrams()),
    "events": (read_events, SourceError, datagrams()),
    "prometheus": (
        lambda raw: clients_from_prometheus(raw.decode("utf-8", "replace")),
        SourceError,
        of("metrics/*.prom"),
    ),
    "jolokia": (clients_from_jolokia, SourceError, of("metrics/*jolokia*.json")),
    "statistics": (
        lambda raw: readings_from_statistics(raw, source="s", received_at=1000.0),
        SourceError,
        of("metrics/librdkafka*.json"),
    ),
    "config": (
        lambda raw: settings_from_text(raw.decode("utf-8", "replace"), "f"),
        ConfigError,
        of("config/*.yaml"),
    ),
    "web-config": (
        lambda raw: read_web_config(raw.decode("utf-8", "replace"), "w"),
        ConfigError,
        WEB,
    ),
    "request": (read_request, (h11.ProtocolError, OSError, TimeoutError), REQUESTS),
}


def mutated(rng, seeds):
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.randint(1, 6)):
        at, end = sorted((rng.randint(0, len(data)), rng.randint(0, len(data))))
        kind = rng.randrange(6)
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[at : min(end, at + 100)]
        elif kind == 2:
            data[at:at] = rng.choice(TOKENS)
        elif kind == 3:
            data[at:at] = data[at : min(end, at + 200)] * rng.randint(1, 8)
        elif kind == 4:
            other = rng.choice(seeds)
            data[at:end] = other[at:end]
        else:
            del data[at:]
    return bytes(data[:MOST_BYTES])


def attempt(target, raw):
    """Let a parser read something; what it must not do is raised, and the input is kept."""
    read, declared, _ = TARGETS[target]
    begun = time.process_time()
    try:
        with contextlib.suppress(declared):
            read(raw)
        assert time.process_time() - begun < MOST_SECONDS, "it took too long"
    except BaseException:
        kept = CRASHES / target / hashlib.sha256(raw).hexdigest()[:16]
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(raw)
        raise


@pytest.mark.parametrize("target", TARGETS)
def test_what_once_crashed_does_not_again(target):
    for path in sorted((CRASHES / target).glob("*")):
        attempt(target, path.read_bytes())


@pytest.mark.parametrize("target", TARGETS)
def test_mutations_of_good_input_are_read_or_refused(target):
    rng = random.Random(SECONDS)
    seeds = TARGETS[target][2]
    for seed in seeds:
        attempt(target, seed)
    end, tried = time.process_time() + SECONDS, 0
    while time.process_time() < end:
        attempt(target, mutated(rng, seeds))
        tried += 1
    assert tried > 10
