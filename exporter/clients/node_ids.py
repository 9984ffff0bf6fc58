"""Parses a client's node name into the broker id and the role of the connection.

Java writes `node-` and a number: negative for a bootstrap server in the order of the list,
`Integer.MAX_VALUE - b` for the coordinator on broker b (to 4.3), `+b` for the same from 4.4, and b
for a broker. A coordinator differs from a broker by size alone: above `HIGHEST_BROKER_ID` the
number is read as a coordinator's, so a broker id in the upper half of the 31 bits (somebody who
makes ids of addresses from 64.0.0.0 on) would be misread. kafka-python writes `coordinator-b` and
`bootstrap-n`. Any other shape is a node of unknown role, kept by its own name.
"""

from __future__ import annotations

__all__ = ["HIGHEST_BROKER_ID", "parse_node_id", "unquoted"]

import re
from functools import lru_cache

from exporter.model import ClientKind, Role

INTEGER_MAX = 2**31 - 1
HIGHEST_BROKER_ID = 2**30 - 1
_SHAPE = re.compile(r"(\+|-|coordinator-|bootstrap-)?([0-9]{1,10})", re.ASCII)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


@lru_cache(maxsize=4096)
def parse_node_id(raw: str, kind: ClientKind) -> tuple[str, Role, int | None]:
    """Return a node's id in the client's own spelling, its role, and its broker where it has one.

    A producer has no group: its coordinator is the transaction's. The nodes of an admin client,
    and of a Connect worker's own membership, carry control work and no records.
    """
    node_id = unquoted(raw).removeprefix("node-")
    shape = _SHAPE.fullmatch(node_id)
    if shape is None:
        return node_id, Role.UNKNOWN, None
    mark, number = shape[1] or "", int(shape[2])
    if number > INTEGER_MAX:
        return node_id, Role.UNKNOWN, None
    if mark in ("-", "bootstrap-"):
        return node_id, Role.BOOTSTRAP, None
    if mark:
        return node_id, _coordinator(kind), number
    if number > HIGHEST_BROKER_ID:
        return node_id, _coordinator(kind), INTEGER_MAX - number
    return node_id, _learned(kind), number


def unquoted(raw: str) -> str:
    r"""Undo `ObjectName.quote`: Java quotes a value that holds more than letters, digits, `-_.`."""
    if len(raw) > 1 and raw[0] == raw[-1] == '"':
        return _ESCAPED.sub(lambda match: "\n" if match[1] == "n" else match[1], raw[1:-1])
    return raw


def _coordinator(kind: ClientKind) -> Role:
    return Role.TRANSACTION if kind is ClientKind.PRODUCER else Role.COORDINATOR


def _learned(kind: ClientKind) -> Role:
    return Role.ADMIN if kind in (ClientKind.ADMIN, ClientKind.CONNECT) else Role.DATA
