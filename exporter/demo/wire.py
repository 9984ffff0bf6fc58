"""The few Kafka requests that the staged clients send: ApiVersions, Metadata and Fetch.

Old versions on purpose: they have no compact fields, and the mock cluster answers them.
Each returns the answer's body after the correlation id; `Wire` counts the bytes as a client does.
"""

from __future__ import annotations

__all__ = ["Leader", "Wire"]

import socket
import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

API_VERSIONS, METADATA, FETCH = 18, 3, 1
TIMEOUT_SECONDS = 10.0
LARGEST_ANSWER = 8 << 20
# What a fetch waits for records, Kafka's own default: a quiet topic costs two requests a second.
FETCH_WAIT_MS = 500
FETCH_BYTES = 1 << 20
_CORRELATION_BYTES = 4


class Leader(NamedTuple):
    """A partition and the broker that leads it."""

    partition: int
    broker: int


class Wire:
    """One connection to a broker, with what went over it."""

    def __init__(self, address: str, client_id: str) -> None:
        host, _, port = address.rpartition(":")
        self._client_id = client_id.encode()
        self._correlation = 0
        self.outgoing_bytes = 0
        self.incoming_bytes = 0
        self.socket = socket.create_connection((host, int(port)), TIMEOUT_SECONDS)

    def api_versions(self) -> bytes:
        """Ask what the broker speaks, as every client does first."""
        return self._ask(API_VERSIONS, 0, b"")

    def metadata(self, topic: str) -> tuple[dict[int, str], list[Leader]]:
        """Ask for the brokers' addresses and for the leaders of a topic."""
        answer = _Reader(self._ask(METADATA, 1, struct.pack(">i", 1) + _string(topic)))
        brokers = {}
        for _ in range(answer.number("i")):
            broker, host, port = answer.number("i"), answer.string(), answer.number("i")
            answer.string()  # rack
            brokers[broker] = f"{host}:{port}"
        answer.number("i")  # controller
        leaders = []
        for _ in range(answer.number("i")):
            answer.number("h")  # error
            answer.string()
            answer.number("b")  # is_internal
            for _ in range(answer.number("i")):
                answer.number("h")
                partition, leader = answer.number("i"), answer.number("i")
                leaders.append(Leader(partition, leader))
                for _ in range(2):  # replicas, replicas in sync
                    answer.skip(4 * answer.number("i"))
        return brokers, leaders

    def fetch(self, topic: str, offsets: Mapping[int, int]) -> dict[int, int]:
        """Ask for the records of partitions from their offsets on; return where to go on.

        The records are not looked at: the next offset is the end of the partition.
        """
        body = struct.pack(">iiiibi", -1, FETCH_WAIT_MS, 1, FETCH_BYTES, 0, 1) + _string(topic)
        body += struct.pack(">i", len(offsets))
        for partition, offset in offsets.items():
            body += struct.pack(">iqi", partition, offset, FETCH_BYTES)
        answer = _Reader(self._ask(FETCH, 4, body))
        answer.number("i")  # throttle time
        ends = {}
        for _ in range(answer.number("i")):
            answer.string()
            for _ in range(answer.number("i")):
                partition = answer.number("i")
                answer.number("h")  # error
                ends[partition] = max(0, answer.number("q"))
                answer.number("q")  # last stable offset
                answer.skip(16 * max(0, answer.number("i")))  # aborted transactions
                answer.skip(max(0, answer.number("i")))  # records
        return ends

    def _ask(self, api: int, version: int, body: bytes) -> bytes:
        self._correlation += 1
        head = struct.pack(">hhi", api, version, self._correlation)
        message = head + struct.pack(">h", len(self._client_id)) + self._client_id + body
        request = struct.pack(">i", len(message)) + message
        self.socket.sendall(request)
        self.outgoing_bytes += len(request)
        (size,) = struct.unpack(">i", self._read(4))
        if not _CORRELATION_BYTES <= size <= LARGEST_ANSWER:
            raise ConnectionError(f"an answer of {size} bytes is none")
        answer = self._read(size)
        self.incoming_bytes += 4 + size
        return answer[_CORRELATION_BYTES:]

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise ConnectionError("the broker has closed")
            data += part
        return bytes(data)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, code: str) -> int:
        (value,) = struct.unpack_from(f">{code}", self._data, self._at)
        self._at += struct.calcsize(code)
        return int(value)

    def string(self) -> str:
        size = self.number("h")
        start = self._at
        self._at += max(0, size)
        return self._data[start : self._at].decode()

    def skip(self, size: int) -> None:
        self._at += size


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data
