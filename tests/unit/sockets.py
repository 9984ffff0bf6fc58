"""Readings of sockets, for tests of what is made of them."""

from __future__ import annotations

from exporter.model import (
    ClosedSocket,
    Endpoint,
    KernelReading,
    Library,
    Owner,
    OwnerRung,
    ReadMethod,
    SocketReading,
    TcpInfo,
    TcpState,
)

JVM = Owner(
    key="41:1000",
    rung=OwnerRung.PROC_FD,
    name="java",
    pid=41,
    started=2_000.0,
    uid=1000,
    library=Library.JAVA,
)
BROKER = Endpoint("10.2.0.1", 9092)


def figures(out: int = 0, into: int = 0, **changes) -> TcpInfo:
    """The counters of an established socket that sent and received so many bytes of data."""
    values = {
        "bytes_acked": out + 1,
        "bytes_received": into,
        "bytes_sent": out,
        "segments_out": 4,
        "segments_in": 3,
        "data_segments_out": 1 if out else 0,
        "data_segments_in": 1 if into else 0,
        "retransmits_total": 0,
        "rtt_us": 200,
        "last_data_sent_ms": 100,
        "last_data_received_ms": 99,
        "last_ack_received_ms": 99,
    }
    return TcpInfo(**(values | changes))


def reading(cookie: int = 1, at: float = 100.0, **changes) -> SocketReading:
    """One established socket of a client to a broker."""
    values = {
        "at": at,
        "cookie": cookie,
        "local": Endpoint("10.1.0.7", 40_000 + cookie % 20_000),
        "remote": BROKER,
        "tcp_state": TcpState.ESTABLISHED,
        "inode": 5_000 + cookie,
        "uid": 1000,
        "cgroup_id": 7,
        "receive_queue": 0,
        "send_queue": 0,
        "retransmits": 0,
        "info": figures(50, 70),
    }
    return SocketReading(**(values | changes))


def kernel(at: float, *sockets: SocketReading, closed=(), complete: bool = True) -> KernelReading:
    """A whole look at the table."""
    return KernelReading(
        at=at,
        method=ReadMethod.SOCK_DIAG,
        sockets=sockets,
        closed=tuple(closed),
        events_complete=complete,
    )


def end(of: SocketReading, at: float, info: TcpInfo | None, **changes) -> ClosedSocket:
    """The destroy event of a socket."""
    values = {"at": at, "cookie": of.cookie, "local": of.local, "remote": of.remote, "info": info}
    return ClosedSocket(**(values | changes))


def owned(*sockets: SocketReading, owner: Owner = JVM) -> dict[int, Owner]:
    """Everything belongs to one process."""
    return {socket.cookie: owner for socket in sockets}
