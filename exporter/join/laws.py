"""The laws that tie a socket's byte counts to a client node's.

    bytes_acked - 1 + Send-Q = K_out + outgoing_bytes - B_out + cost_out * records written
    bytes_received - Recv-Q  = K_in  + incoming_bytes - B_in  + cost_in  * records read

The costs are those of a TLS record, 0 without TLS. K is what the client does not count: nothing in
plaintext, the handshake under TLS, the login of a Java client under SASL. B is what the node had
counted on earlier connections. Both stay as they are while the connection lives. A produce request
and a fetch response are written in more records than one, and how many is not reported.

Measured on real clients; DESIGN section 4 and the research that it names have the figures.
Pure.
"""

from __future__ import annotations

__all__ = [
    "LAWS",
    "PLAIN",
    "Counts",
    "Law",
    "Shape",
    "counts_of",
    "law_told",
    "most_extra_records",
    "shape_of",
]

from typing import TYPE_CHECKING, NamedTuple

from exporter.model import ClientKind, Library, Role

if TYPE_CHECKING:
    from exporter.model import CipherUse, ClientReading, NodeReading

# A produce request is 1 + 2 records per partition, a fetch response alike, and a record holds
# 16 KiB at most (brokers write 8 KiB blocks in places): so many records a request, and one more
# for so many bytes.
_MOST_RECORDS_PER_REQUEST = 40
_LEAST_BYTES_PER_RECORD = 8_000


class Law(NamedTuple):
    """What a record costs each way in bytes, and how many records a request is at least."""

    out: int
    incoming: int
    per_request: int = 1


PLAIN = Law(0, 0)

# The client's stack writes out, the broker's (a JVM) in: JSSE 38 in TLS 1.3 and OpenSSL 22; both 29
# with AES-GCM in TLS 1.2, and 21 with CHACHA20. Java before 2.4 writes a request's length apart.
LAWS = {
    Library.JAVA: (
        PLAIN, Law(38, 38), Law(29, 29), Law(29, 29, 2), Law(38, 38, 2), Law(21, 21),
        Law(21, 21, 2),
    ),
    Library.LIBRDKAFKA: (PLAIN, Law(22, 38), Law(29, 29), Law(22, 22), Law(21, 21)),
}  # fmt: skip
LAWS[Library.UNKNOWN] = tuple(dict.fromkeys(LAWS[Library.JAVA] + LAWS[Library.LIBRDKAFKA]))


def law_told(client: ClientReading) -> Law | None:
    """Return the law of the TLS that a client reports; Java does from 2.6 on."""
    told = {_law_of(use) for use in client.ciphers}
    return told.pop() if len(told) == 1 else None


def _law_of(use: CipherUse) -> Law | None:
    """Return what JSSE's records cost."""
    if use.protocol == "TLSv1.3":
        return Law(38, 38)
    if use.protocol == "TLSv1.2" and "GCM" in use.cipher:
        return Law(29, 29)
    if use.protocol == "TLSv1.2" and "CHACHA20" in use.cipher:
        return Law(21, 21)
    return None


class Counts(NamedTuple):
    """A node's totals at one read; `requests` and `responses` are -1 where they are not told."""

    outgoing: int
    incoming: int
    requests: int
    responses: int


class Shape(NamedTuple):
    """In which direction every message is one record, but for those above 8,000 bytes."""

    out: bool
    incoming: bool


def counts_of(node: NodeReading) -> Counts | None:
    """Return a node's totals; None where it has not sent and received yet, or does not tell."""
    if not node.outgoing_bytes or not node.incoming_bytes:
        return None
    if node.outgoing_bytes < 0 or node.incoming_bytes < 0:
        return None
    return Counts(
        node.outgoing_bytes,
        node.incoming_bytes,
        -1 if node.requests is None else node.requests,
        -1 if node.responses is None else node.responses,
    )


def shape_of(node: NodeReading, kind: ClientKind) -> Shape:
    """Return where one record a message can be counted on.

    Only data connections carry produce requests (many records out) and fetches (many in).
    """
    carries_data = node.role not in (Role.BOOTSTRAP, Role.COORDINATOR)
    produces = carries_data and kind not in (ClientKind.CONSUMER, ClientKind.ADMIN)
    fetches = carries_data and kind not in (ClientKind.PRODUCER, ClientKind.ADMIN)
    return Shape(
        out=node.requests is not None and not produces,
        incoming=node.responses is not None and not fetches,
    )


def most_extra_records(messages: int, counted: int, *, exact: bool) -> int:
    """Return how many records beyond one a message so many messages of so many bytes may be."""
    if counted <= 0:
        return 0
    extra = counted // _LEAST_BYTES_PER_RECORD
    return extra if exact else extra + _MOST_RECORDS_PER_REQUEST * max(1, messages)
