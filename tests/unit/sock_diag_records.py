"""Netlink messages made by hand, and a netlink socket that plays them back."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

ESTABLISHED, SYN_SENT, FIN_WAIT2, CLOSE, CLOSE_WAIT, LISTEN = 1, 2, 5, 7, 8, 10
AF_INET, AF_INET6 = 2, 10
DUMP, EVENT, DONE, ERROR, NOOP = 18, 20, 3, 2, 1
MULTI, DUMP_INTR = 0x2, 0x10
INFO_BYTES = 280
SO_MEMINFO = 55

MAPPED = bytes(10) + b"\xff\xff"
LOCAL = bytes([10, 0, 0, 1])
REMOTE = bytes([10, 0, 0, 2])

# struct tcp_info: offset and width of what tests set.
INFO_OFFSETS = {
    "last_data_sent": (44, "I"),
    "last_ack_sent": (48, "I"),
    "last_data_recv": (52, "I"),
    "last_ack_recv": (56, "I"),
    "rtt": (68, "I"),
    "total_retrans": (100, "I"),
    "bytes_acked": (120, "Q"),
    "bytes_received": (128, "Q"),
    "segs_out": (136, "I"),
    "segs_in": (140, "I"),
    "notsent": (144, "I"),
    "data_segs_in": (152, "I"),
    "data_segs_out": (156, "I"),
    "busy_time": (168, "Q"),
    "bytes_sent": (200, "Q"),
    "total_rto_time": (244, "I"),
}


def message(kind: int, payload: bytes, *, sequence: int = 1, flags: int = MULTI) -> bytes:
    return struct.pack("=IHHII", 16 + len(payload), kind, flags, sequence, 4711) + payload


def done(number: int = 0, *, sequence: int = 1, flags: int = MULTI) -> bytes:
    return message(DONE, struct.pack("=i", -number), sequence=sequence, flags=flags)


def refusal(number: int, *, sequence: int = 1) -> bytes:
    return message(ERROR, struct.pack("=i", -number) + bytes(16), sequence=sequence)


def attribute(kind: int, payload: bytes) -> bytes:
    padding = bytes(-len(payload) % 4)
    return struct.pack("=HH", 4 + len(payload), kind) + payload + padding


def tcp_info(length: int = INFO_BYTES, **values: int) -> bytes:
    raw = bytearray(max(length, INFO_BYTES))
    for name, value in values.items():
        at, code = INFO_OFFSETS[name]
        struct.pack_into("=" + code, raw, at, value)
    return bytes(raw[:length])


@dataclass
class Record:
    """One socket as the kernel would describe it."""

    cookie: int = 1
    family: int = AF_INET
    state: int = ESTABLISHED
    timer: int = 0
    retransmits: int = 0
    local: bytes = LOCAL
    remote: bytes = REMOTE
    local_port: int = 40000
    remote_port: int = 9092
    expires: int = 0
    receive_queue: int = 0
    send_queue: int = 0
    uid: int = 1000
    inode: int = 5000
    cgroup_id: int | None = 77
    info_length: int | None = INFO_BYTES
    info: dict[str, int] = field(default_factory=dict)
    memory: tuple[int, ...] | None = None
    kind: int = DUMP

    def encode(self, *, sequence: int = 1, flags: int = MULTI) -> bytes:
        body = struct.pack("=BBBB", self.family, self.state, self.timer, self.retransmits)
        body += struct.pack("!HH", self.local_port, self.remote_port)
        body += self.local.ljust(16, b"\0") + self.remote.ljust(16, b"\0")
        body += struct.pack("=IQ", 0, self.cookie)
        body += struct.pack("=II", self.expires, self.receive_queue)
        body += struct.pack("=III", self.send_queue, self.uid, self.inode)
        if self.info_length is not None:
            body += attribute(8, b"\0")
        if self.memory is not None:
            body += attribute(7, struct.pack("=9I", *self.memory))
        if self.cgroup_id is not None:
            body += attribute(21, struct.pack("=Q", self.cgroup_id))
        if self.info_length is not None:
            body += attribute(2, tcp_info(self.info_length, **self.info))
        return message(self.kind, body, sequence=sequence, flags=flags)


def dump_of(*records: Record, sequence: int = 1) -> list[bytes]:
    """One datagram with all records, one with the end."""
    body = b"".join(record.encode(sequence=sequence) for record in records)
    return ([body] if body else []) + [done(sequence=sequence)]


class FakeDiag:
    """Plays datagrams and errors back; an empty script is a socket on which nothing arrives."""

    def __init__(self, groups: int = 0) -> None:
        self.groups = groups
        self.script: list[bytes | OSError] = []
        self.sent: list[bytes] = []
        self.options: list[tuple[int, int, object]] = []
        self.drops = 0
        self.closed = False

    def send(self, data) -> int:
        self.sent.append(bytes(data))
        return len(data)

    def recv_into(self, buffer, nbytes: int, flags: int) -> int:
        del flags
        if not self.script:
            raise BlockingIOError(11, "nothing there")
        item = self.script.pop(0)
        if isinstance(item, OSError):
            raise item
        buffer[: min(len(item), nbytes)] = item[:nbytes]
        return len(item)

    def setsockopt(self, level: int, option: int, value) -> None:
        self.options.append((level, option, value))

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        assert (level, option, size) == (1, SO_MEMINFO, 36)
        return struct.pack("=9I", *[0] * 8, self.drops)

    def close(self) -> None:
        self.closed = True


class FakeKernel:
    """Hands out sockets: one for dumps, one for events, new ones after each close."""

    def __init__(self) -> None:
        self.opened: list[FakeDiag] = []
        self.refuse_groups: OSError | None = None
        self.upcoming: list[list[bytes | OSError]] = []
        self.naps: list[float] = []
        self.on_nap: list[bytes] = []

    def open(self, groups: int = 0) -> FakeDiag:
        if groups and self.refuse_groups is not None:
            from exporter.kernel.netlink import unavailable

            raise unavailable(self.refuse_groups, "cannot hear") from self.refuse_groups
        opened = FakeDiag(groups)
        if self.upcoming and not groups:
            opened.script += self.upcoming.pop(0)
        self.opened.append(opened)
        return opened

    @property
    def asked(self) -> FakeDiag:
        """The latest socket for dumps."""
        return [each for each in self.opened if not each.groups][-1]

    @property
    def heard(self) -> FakeDiag:
        """The latest socket for events."""
        return [each for each in self.opened if each.groups][-1]

    def nap(self, seconds: float) -> None:
        """Sleep; what the kernel was slow with arrives meanwhile."""
        self.naps.append(seconds)
        if self.on_nap:
            self.heard.script.append(self.on_nap.pop(0))
