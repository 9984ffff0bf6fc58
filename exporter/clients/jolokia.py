"""Java client metrics through Jolokia: one bulk read, its response decoded strictly."""

from __future__ import annotations

__all__ = ["CONTENT_TYPE", "bulk_read", "clients_from_jolokia"]

import json
import re
from typing import TYPE_CHECKING, Any

from exporter.clients.java_readings import ClientFigures, ClientRows, NodeFigure, whole
from exporter.clients.json_values import decoded, number, text
from exporter.errors import SourceDecodeError, SourceUnavailableError
from exporter.model import ClientKind

if TYPE_CHECKING:
    from exporter.model import ClientReading

CONTENT_TYPE = "application/json"

_KINDS = {
    "kafka.producer": ("producer", ClientKind.PRODUCER),
    "kafka.consumer": ("consumer", ClientKind.CONSUMER),
    "kafka.admin.client": ("admin-client", ClientKind.ADMIN),
    "kafka.connect": ("connect", ClientKind.CONNECT),
}
_NODE_ATTRIBUTES = {
    "outgoing-byte-total": NodeFigure.OUTGOING_BYTES,
    "incoming-byte-total": NodeFigure.INCOMING_BYTES,
    "request-total": NodeFigure.REQUESTS,
    "response-total": NodeFigure.RESPONSES,
}
_CLIENT_ATTRIBUTES = {
    "connection-count": ClientFigures.CONNECTION_COUNT,
    "connection-creation-total": ClientFigures.CONNECTIONS_CREATED,
    "connection-close-total": ClientFigures.CONNECTIONS_CLOSED,
    "successful-authentication-total": ClientFigures.AUTHENTICATIONS,
    "successful-reauthentication-total": ClientFigures.REAUTHENTICATIONS,
}
# On beans of their own, one for each protocol and cipher suite.
_CIPHER_ATTRIBUTE = "connections"
# The metric of 2.x and later, and the attribute of the older MBean with `id=`.
_VERSION_ATTRIBUTES = ("version", "Version")
# The pattern meets no MBean (404), or none of these has one of the attributes (400).
_NOTHING_THERE = (404, 400)
_OK = 200
_PROPERTY = re.compile(r'([^=,:"]+)=("[^"\\]*(?:\\.[^"\\]*)*"|[^,"]*)(?:,|$)', re.DOTALL)


def bulk_read() -> bytes:
    """Return the body of the POST that asks for every figure of every kind of client."""
    requests = []
    for domain, (kind, _) in _KINDS.items():
        for group, attributes in (
            (f"{kind}-node-metrics", _NODE_ATTRIBUTES),
            (f"{kind}-metrics", (*_CLIENT_ATTRIBUTES, _CIPHER_ATTRIBUTE)),
            ("app-info", _VERSION_ATTRIBUTES),
        ):
            requests.append(
                {
                    "type": "read",
                    "mbean": f"{domain}:type={group},*",
                    "attribute": list(attributes),
                    "config": {"ignoreErrors": "true"},
                }
            )
    return json.dumps(requests).encode()


def clients_from_jolokia(body: bytes | str, where: str = "Jolokia") -> tuple[ClientReading, ...]:
    """Return the clients in the answer to `bulk_read`.

    Raises:
        SourceDecodeError: it is no such answer.
        SourceUnavailableError: Jolokia refused all of it.
    """
    answers = decoded(body, where)
    if isinstance(answers, dict):
        # One answer to a bulk read is Jolokia's own error, or not Jolokia at all.
        _check_status([answers], where)
        answers = None
    if not isinstance(answers, list) or not all(isinstance(one, dict) for one in answers):
        raise SourceDecodeError(f"{where}: not the answer of a Jolokia bulk read")
    _check_status(answers, where)
    rows = ClientRows(where)
    for answer in answers:
        beans = answer.get("value")
        if answer.get("status") == _OK and isinstance(beans, dict):
            for name, attributes in beans.items():
                if isinstance(attributes, dict):
                    _take_bean(rows, name, attributes)
    return rows.readings()


def _check_status(answers: list[dict[str, Any]], where: str) -> None:
    statuses = [answer.get("status") for answer in answers]
    if _OK in statuses or any(status in _NOTHING_THERE for status in statuses):
        return
    if not answers or not isinstance(statuses[0], int):
        raise SourceDecodeError(f"{where}: not the answer of a Jolokia bulk read")
    raise SourceUnavailableError(
        f"{where} refuses the read (status {statuses[0]}); allow reading `kafka.*` in its policy"
    )


def _take_bean(rows: ClientRows, object_name: str, attributes: dict[str, Any]) -> None:
    domain, properties = _parse_object_name(object_name)
    kind = _KINDS.get(domain)
    client_id = text(properties.get("client-id", properties.get("id")))
    if kind is None or client_id is None:
        return
    key = (kind[1], client_id, "")
    group = properties.get("type")
    if group == "app-info":
        for name in _VERSION_ATTRIBUTES:
            rows.version(key, text(attributes.get(name)) or "")
    elif group == f"{kind[0]}-metrics":
        _take_client(rows, key, properties, attributes)
    elif group == f"{kind[0]}-node-metrics" and (node_id := text(properties.get("node-id"))):
        for name, node_figure in _NODE_ATTRIBUTES.items():
            if name in attributes:
                rows.node(key, node_id, node_figure, _count(attributes[name]))


def _take_client(
    rows: ClientRows,
    key: tuple[ClientKind, str, str],
    properties: dict[str, str],
    attributes: dict[str, Any],
) -> None:
    protocol, cipher = text(properties.get("protocol")), text(properties.get("cipher"))
    if protocol and cipher and _CIPHER_ATTRIBUTE in attributes:
        rows.cipher(key, protocol, cipher, _count(attributes[_CIPHER_ATTRIBUTE]))
    for name, figure in _CLIENT_ATTRIBUTES.items():
        if name in attributes:
            rows.client(key, figure, _count(attributes[name]))


def _parse_object_name(name: str) -> tuple[str, dict[str, str]]:
    """Return domain and properties, still quoted; no properties where it is no ObjectName."""
    domain, _, rest = name.partition(":")
    properties: dict[str, str] = {}
    position = 0
    while position < len(rest):
        match = _PROPERTY.match(rest, position)
        if match is None:
            return domain, {}
        properties[match[1]] = match[2]
        position = match.end()
    return domain, properties


def _count(value: Any) -> int | None:
    # Jolokia writes NaN as a text; Kafka's own counters are doubles.
    value = number(value)
    return None if value is None else whole(value)
