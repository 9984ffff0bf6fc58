"""Sockets and client nodes for the join, each byte given by hand."""

from __future__ import annotations

from exporter.clients.node_ids import parse_node_id
from exporter.join.claims import Claims
from exporter.join.history import Row, Socket
from exporter.join.laws import shape_of
from exporter.join.source import Source
from exporter.model import (
    ClientGroup,
    ClientKey,
    ClientKind,
    ClientReading,
    Endpoint,
    Library,
    NodeReading,
    SourceReading,
)
from tests.unit.sockets import figures, reading

HERE, THERE = Endpoint("10.0.0.1", 9093), Endpoint("10.0.0.2", 9093)


def look(
    at, out, incoming, *, cookie=1, remote=HERE, sent=None, received=None, waits=0, unread=0
):  # fmt: skip
    """Return a socket's reading; `sent` and `received` are ages in seconds.

    `waits` of the outgoing bytes are still in its send queue, and `unread` more have come in.
    """
    info = figures(
        out - waits, incoming + unread,
        last_data_sent_ms=None if sent is None else round(sent * 1e3),
        last_data_received_ms=None if received is None else round(received * 1e3),
    )  # fmt: skip
    return reading(
        cookie, at, remote=remote, info=info, receive_queue=unread, send_queue=waits
    )  # fmt: skip


def socket(cookie=1, remote=HERE, *, group=None, owner="pid:1", opened=10.0):
    """Return a socket that was seen to be opened within a second."""
    its_group = None if group is None else ClientGroup(key=group, number=1)
    return Socket(cookie, remote, owner, opened, opened - 1.0, its_group)


def node(node_id, out=None, incoming=None, *, kind=ClientKind.ADMIN, **more):
    """Return a node by its id; an admin's has one record a message both ways."""
    _id, role, broker_id = parse_node_id(node_id, kind)
    return NodeReading(
        node_id=node_id, role=role, broker_id=broker_id, outgoing_bytes=out,
        incoming_bytes=incoming, **more,
    )  # fmt: skip


def client(name, *nodes, kind=ClientKind.ADMIN, library=Library.JAVA, **more):
    return ClientReading(client_id=name, kind=kind, library=library, nodes=nodes, **more)


def page(at, *clients, sender_pid=None):
    """Return a page that was read in no time."""
    return SourceReading(
        source="app", begun_at=at, ended_at=at, clients=clients, sender_pid=sender_pid
    )


def row(node_id="-1", *, name="c", kind=ClientKind.ADMIN, library=Library.JAVA, **more):
    """Return a node that has not been read yet, with its requests counted unless said."""
    its_node = node(node_id, kind=kind, **({"requests": 0, "responses": 0} | more))
    key = ClientKey("app", kind, name)
    return Row(key, node_id, library, its_node, shape_of(its_node, kind))


class Process:
    """The sockets and the page of one process, read every two seconds while nothing goes."""

    def __init__(self):
        self.source = Source()
        self.claims = Claims(self.source)
        self.at = 100.0

    def read(self, counts, *clients, needs_witness=False, may_be=lambda _row, _socket: True):
        """Read sockets (with their counts, out and in) and clients; return what is claimed.

        That is, by cookie, the client_id and node_id of each option.
        """
        self.at += 2.0
        for each, (out, incoming) in counts.items():
            each.note(self.at - 1, look(self.at - 1, out, incoming, cookie=each.cookie))
            each.note(self.at + 1, look(self.at + 1, out, incoming, cookie=each.cookie))
        self.source.take(page(self.at, *clients))
        self.source.advance(list(counts), may_be)
        return {
            claim.socket.cookie: {
                (pair.row.client.client_id, pair.row.node_id) for pair in claim.pairs
            }
            for claim in self.claims.claims(list(counts), needs_witness=needs_witness)
        }
