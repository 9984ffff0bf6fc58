"""An agent's answer, checked before anything is made of it: the agent may be anybody."""

from __future__ import annotations

__all__ = ["Document", "document_from_answer", "json_from_answer"]

import json
from math import isfinite
from typing import Any

from exporter.errors import SourceDecodeError

Document = dict[str, Any]

# Lists of records that a newer agent may add keys to, but not drop; and one that came later.
_LISTS = ("connections", "expected", "findings", "sources")
_LATER_LISTS = ("process_clients",)
_TEXTS = frozenset(
    {
        "cookie", "local", "remote", "tcp_state", "class", "role", "confidence", "process",
        "owner_rung", "client_id", "client_kind", "client_instance", "library", "node_id", "broker",
        "source", "expected_rule", "close_expected", "name", "severity", "summary", "description",
        "remedy", "kind", "error",
    }
)  # fmt: skip
_NUMBERS = frozenset(
    {
        "admins", "age_seconds", "broker_id", "cgroup_id", "client_number", "clients",
        "closes_in_seconds", "connections", "consumers", "duration_seconds", "efficiency",
        "errors", "expected", "idle_limit_seconds", "idle_seconds", "incoming_bytes",
        "librdkafka", "outgoing_bytes", "pid", "producers", "reads", "receive_queue",
        "retransmits_total", "rtt_seconds", "send_queue", "uid", "unanswered_seconds", "unused",
        "unused_seconds", "value",
    }
)  # fmt: skip
_SWITCHES = frozenset({"age_is_exact", "told_apart"})
_LISTS_OF_TEXT = frozenset({"cookies", "evidence", "equals"})
_HIGHEST = 2**64


def document_from_answer(body: bytes, where: str) -> Document:
    """Return the API's document.

    Raises:
        SourceDecodeError: it is none, or a field of it has a value that it cannot have.
    """
    document = json_from_answer(body, where)
    if not isinstance(document.get("summary"), dict):
        raise _wrong(where)
    for name in (*_LISTS, *_LATER_LISTS):
        values = document.get(name, [] if name in _LATER_LISTS else None)
        if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
            raise _wrong(where)
        for value in values:
            _check(value, f"{where}: `{name}`")
    _check(document["summary"], f"{where}: `summary`")
    return document


def json_from_answer(body: bytes, where: str) -> Document:
    """Return a JSON object of which nothing else is known.

    Raises:
        SourceDecodeError: it is none.
    """
    try:
        document = json.loads(body, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise _wrong(where) from error
    if not isinstance(document, dict):
        raise _wrong(where)
    return document


def _wrong(where: str) -> SourceDecodeError:
    return SourceDecodeError(f"{where} is not the API of a brokerwire agent")


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    """Return a number that can be written as JSON again: `1e999` would become Infinity."""
    value = float(text)
    if not isfinite(value):
        _refuse(text)
    return value


def _check(record: Document, where: str) -> None:
    for key, value in record.items():
        if not _fits(key, value):
            raise SourceDecodeError(
                f"{where} has a {key!r} of a kind that it cannot have; is this a brokerwire agent?"
            )


def _fits(key: str, value: Any) -> bool:
    if key in _LISTS_OF_TEXT:
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    if value is None:
        return True
    if key in _TEXTS:
        return isinstance(value, str)
    if key == "useful":
        # Of a connection whether it is, of the summary how many are.
        return isinstance(value, bool) or _is_number(value)
    if key in _SWITCHES:
        return isinstance(value, bool)
    if key in _NUMBERS:
        return _is_number(value)
    return True


def _is_number(value: Any) -> bool:
    is_one = isinstance(value, int | float) and not isinstance(value, bool)
    return is_one and abs(value) <= _HIGHEST
