"""The laws that tie a socket's byte counts to a client node's, for one pair over time.

    bytes_acked - 1 + Send-Q = K_out + outgoing_bytes + cost_out * records written
    bytes_received - Recv-Q  = K_in  + incoming_bytes + cost_in  * records read

The costs are those of a TLS record, 0 without TLS. K is what the client does not count: nothing in
plaintext, the handshake under TLS, the login of a Java client under SASL; less what the node had
counted on earlier connections. So K stays as it is while the connection lives, with two exceptions:
a produce request and a fetch response are written in more records than one, and how many is not
told. There K grows by whole records.

Measured on real clients; DESIGN section 4 and the research that it names have the figures.
Pure.
"""

from __future__ import annotations

__all__ = [
    "LAWS",
    "NOTHING",
    "PLAIN",
    "Bracket",
    "Counts",
    "Law",
    "Shape",
    "bracket_of",
    "counts_of",
    "law_told",
    "shape_of",
]

from typing import TYPE_CHECKING, NamedTuple

from exporter.model import ClientKind, Library, Role

if TYPE_CHECKING:
    from collections.abc import Iterable

    from exporter.model import CipherUse, ClientReading, NodeReading, SocketReading

# A produce request is 1 + 2 records per partition, a fetch response alike, and a record holds
# 16 KiB at most (brokers write 8 KiB blocks in places): so many records a request, and one more
# for so many bytes.
MOST_RECORDS_PER_REQUEST = 40
LEAST_BYTES_PER_RECORD = 8_000


class Law(NamedTuple):
    """What a record costs each way, and how many records a request is at least."""

    out: int
    incoming: int
    per_request: int = 1

    def shown(self, shape: Shape) -> Shape:
        """Return where a node's records are told, or cost nothing."""
        return Shape(shape.exact_out or not self.out, shape.exact_in or not self.incoming)

    def paid(self, counts: Counts) -> tuple[int, int]:
        """Return the bytes of a node with the records that its requests must have taken."""
        return (
            counts.outgoing + self.out * self.per_request * max(0, counts.requests),
            counts.incoming + self.incoming * max(0, counts.responses),
        )


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


def law_told(clients: Iterable[ClientReading]) -> Law | None:
    """Return the law that all clients of a page tell by the TLS that they use, if they do.

    Java tells it from 2.6 on. Logins that it counts are TLS handshakes too: none, no TLS.
    """
    told: set[Law | None] = set()
    for client in clients:
        if client.connection_count == 0:
            continue
        if client.library is Library.JAVA and client.authentications == 0:
            told.add(PLAIN)
        told |= {_law_of(use) for use in client.ciphers}
        if not client.ciphers and client.authentications != 0:
            told.add(None)
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


NOTHING = Counts(0, 0, 0, 0)


class Bracket(NamedTuple):
    """A socket's byte counts just before and just after the client's figures were read."""

    out_low: int
    out_high: int
    in_low: int
    in_high: int

    @property
    def is_quiet(self) -> bool:
        """Whether nothing went meanwhile, so that both counts are of one moment."""
        return self.out_low == self.out_high and self.in_low == self.in_high


class Shape(NamedTuple):
    """In which direction a node's records can be told from its requests."""

    exact_out: bool
    exact_in: bool


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
        exact_out=node.requests is not None and not produces,
        exact_in=node.responses is not None and not fetches,
    )


def bracket_of(before: SocketReading | None, after: SocketReading | None) -> Bracket | None:
    """Return the bracket of a socket, None where the kernel did not count its bytes.

    A socket that was not there before had sent nothing then.
    """
    if after is None:
        return None
    out_high, in_high = after.outgoing_bytes, after.incoming_bytes
    if out_high is None or in_high is None:
        return None
    if before is None:
        return Bracket(0, out_high, 0, in_high)
    out_low, in_low = before.outgoing_bytes, before.incoming_bytes
    if out_low is None or in_low is None:
        return None
    return Bracket(out_low, out_high, in_low, in_high)
