"""Record what this kernel answers to the socket dump: raw bytes, and what they mean.

    sudo python tools/record_sock_diag.py tests/golden/sock_diag

Each case is made of real sockets in a network namespace of its own. Before anything is written,
what the decoder says is compared with what each socket says of itself (getsockopt, fstat), so that
a golden file is not merely what the decoder happened to think.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import platform
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from exporter.config.settings import PortRange
from exporter.kernel.dump_reader import DumpReader
from exporter.kernel.netlink import BUFFER_BYTES, HEADER, open_diag_socket
from exporter.kernel.port_filter import FilterKind
from exporter.kernel.sock_diag import dump_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from exporter.model import SocketReading

PORTS = (PortRange(9092, 9094),)
PORT = 9092
AT = 1000.0
SEQUENCE = 7
NOBODY = 65534
DONE = 3
SO_COOKIE = 57
INSIDE = "BROKERWIRE_RECORD_INSIDE"

Case = contextlib.AbstractContextManager[list[socket.socket]]


def document_of(reading: SocketReading) -> dict[str, object]:
    """Return a reading as it stands in a golden file."""
    places = {"local": reading.local._asdict(), "remote": reading.remote._asdict()}
    return dataclasses.asdict(reading) | places


def _main() -> None:
    if not sys.argv[1:]:
        raise SystemExit(__doc__)
    if not os.environ.get(INSIDE):
        command = ["unshare", "--net", sys.executable, *sys.argv]
        os.execvpe(command[0], command, os.environ | {INSIDE: "1"})
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    folder = Path(sys.argv[1])
    for name, case, privileged in CASES:
        with case() as sockets:
            time.sleep(0.05)
            buffers = name.endswith("-buffers")
            datagrams = _dump(buffers=buffers) if privileged else _dump_as_nobody(buffers=buffers)
            readings = _decode(datagrams)
            _check(readings, sockets, buffers=buffers)
            _write(folder, name, datagrams, readings, privileged=privileged)
            print(name, [len(datagram) for datagram in datagrams])


# ---- the cases: yield the sockets that are to be in the dump -------------------------------------


@contextlib.contextmanager
def _established(family: int, listen: str, connect: str) -> Iterator[list[socket.socket]]:
    with (
        socket.create_server((listen, PORT), family=family) as server,
        socket.socket(socket.AF_INET6 if ":" in connect else socket.AF_INET) as client,
    ):
        client.connect((connect, PORT))
        with server.accept()[0] as accepted:
            client.sendall(b"q" * 1000)
            accepted.recv(1000)
            accepted.sendall(b"r" * 300)
            client.recv(100)
            yield [client]


@contextlib.contextmanager
def _close_wait() -> Iterator[list[socket.socket]]:
    with (
        _established(socket.AF_INET, "127.0.0.1", "::ffff:127.0.0.1") as sockets,
        socket.create_server(("127.0.0.1", PORT + 1)) as server,
        socket.create_connection(("127.0.0.1", PORT + 1)) as client,
    ):
        accepted = server.accept()[0]
        accepted.sendall(b"bye")
        accepted.close()
        yield [*sockets, client]


@contextlib.contextmanager
def _syn_sent() -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        # The queue of a listener with a backlog of 0 holds one connection; further ones wait.
        server = stack.enter_context(socket.create_server(("127.0.0.1", PORT), backlog=0))
        assert server
        clients = []
        for _ in range(3):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", PORT))
            clients.append(client)
        yield clients


@contextlib.contextmanager
def _fin_wait2() -> Iterator[list[socket.socket]]:
    with (
        socket.create_server(("127.0.0.1", PORT)) as server,
        _established(socket.AF_INET6, "::1", "::1") as sockets,
    ):
        client = socket.create_connection(("127.0.0.1", PORT))
        with server.accept()[0]:
            client.close()
            yield sockets


CASES: tuple[tuple[str, Callable[[], Case], bool], ...] = (
    ("established-v4", lambda: _established(socket.AF_INET, "127.0.0.1", "127.0.0.1"), True),
    (
        "established-v4-unprivileged",
        lambda: _established(socket.AF_INET, "127.0.0.1", "127.0.0.1"),
        False,
    ),
    (
        "established-mapped",
        lambda: _established(socket.AF_INET, "127.0.0.1", "::ffff:127.0.0.1"),
        False,
    ),
    (
        "established-v4-buffers",
        lambda: _established(socket.AF_INET, "127.0.0.1", "127.0.0.1"),
        False,
    ),
    ("established-v6", lambda: _established(socket.AF_INET6, "::1", "::1"), False),
    ("close-wait", _close_wait, False),
    ("syn-sent", _syn_sent, False),
    ("fin-wait2", _fin_wait2, False),
    ("fin-wait2-privileged", _fin_wait2, True),
    ("nothing", lambda: contextlib.nullcontext([]), False),
)


# ---- dump, decode, check, write ------------------------------------------------------------------


def _dump(*, buffers: bool) -> list[bytes]:
    request = dump_request(PORTS, FilterKind.EQUAL, buffers=buffers)
    struct.pack_into("=I", request, 8, SEQUENCE)
    diag = open_diag_socket()
    diag.send(request)
    buffer = bytearray(BUFFER_BYTES)
    datagrams = []
    while True:
        size = diag.recv_into(buffer, BUFFER_BYTES, socket.MSG_TRUNC)
        datagrams.append(bytes(buffer[:size]))
        if HEADER.unpack_from(buffer)[1] == DONE:
            diag.close()
            return datagrams


def _dump_as_nobody(*, buffers: bool) -> list[bytes]:
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.setgroups([])
        os.setresuid(NOBODY, NOBODY, NOBODY)
        with os.fdopen(writer, "wb") as file:
            file.write(b"".join(frame(datagram) for datagram in _dump(buffers=buffers)))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        framed = file.read()
    os.waitpid(child, 0)
    return list(unframe(framed))


def frame(datagram: bytes) -> bytes:
    """Put a datagram into a file: its length, then its bytes."""
    return struct.pack("<I", len(datagram)) + datagram


def unframe(framed: bytes) -> Iterator[bytes]:
    """Return the datagrams of a file."""
    at = 0
    while at < len(framed):
        (size,) = struct.unpack_from("<I", framed, at)
        yield framed[at + 4 : at + 4 + size]
        at += 4 + size


def _decode(datagrams: list[bytes]) -> tuple[SocketReading, ...]:
    reader = DumpReader()
    reader.start(SEQUENCE, AT)
    for datagram in datagrams:
        reader.buffer[: len(datagram)] = datagram
        reader.feed(len(datagram))
    return reader.finish()


def _check(
    readings: tuple[SocketReading, ...], sockets: list[socket.socket], *, buffers: bool
) -> None:
    by_cookie = {reading.cookie: reading for reading in readings}
    for each in sockets:
        raw = each.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8)
        reading = by_cookie[struct.unpack("=Q", raw)[0]]
        info = each.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 280)
        acked, received, out, into = struct.unpack_from("=QQII", info, 120)
        address, port = each.getsockname()[:2]
        assert reading.info is not None
        said = (reading.info.bytes_acked, reading.info.bytes_received)
        assert said == (acked, received), (reading, acked, received)
        assert (reading.info.segments_out, reading.info.segments_in) == (out, into)
        room = each.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        assert reading.receive_buffer == (room if buffers else None)
        assert reading.info.rtt_us == (struct.unpack_from("=I", info, 68)[0] or None)
        assert reading.inode == os.fstat(each.fileno()).st_ino
        assert reading.local.port == port
        assert reading.local.address == address.removeprefix("::ffff:")


def _write(
    folder: Path,
    name: str,
    datagrams: list[bytes],
    readings: tuple[SocketReading, ...],
    *,
    privileged: bool,
) -> None:
    kernel = ".".join(platform.release().split(".")[:2])
    described = {
        "kernel": platform.release().partition("-")[0],
        "machine": platform.machine(),
        "command": "python tools/record_sock_diag.py tests/golden/sock_diag",
        "privileged": privileged,
        "sequence": SEQUENCE,
        "at": AT,
        "sockets": [document_of(reading) for reading in readings],
    }
    path = folder / f"{kernel}-{name}"
    path.with_name(path.name + ".bin").write_bytes(b"".join(map(frame, datagrams)))
    path.with_name(path.name + ".json").write_text(json.dumps(described, indent=1) + "\n")


if __name__ == "__main__":
    _main()
