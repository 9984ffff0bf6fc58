"""The table of connections for those without scripts."""

from __future__ import annotations

__all__ = ["connections_section", "most_wrong"]

from heapq import nsmallest
from typing import TYPE_CHECKING

from exporter.model import ConnectionClass
from exporter.text import MISSING, count_words, duration, size
from exporter.web.markup import Markup, element
from exporter.web.page_parts import (
    MOST_ROWS,
    Document,
    badge,
    broker,
    number,
    rest,
    section,
    table,
    whose,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from exporter.model import Connection

_ORDER = {str(each): place for place, each in enumerate(ConnectionClass)}


def most_wrong(connections: Iterable[Connection]) -> list[Connection]:
    """Choose what the page has room for: what is wrong first, in the order of the classes."""
    return nsmallest(
        MOST_ROWS,
        connections,
        key=lambda each: (_ORDER[each.connection_class], each.broker, each.local),
    )


def connections_section(connections: Sequence[Document], total: int) -> Markup:
    """List connections; `total` is how many there are in all."""
    rows = [_connection_row(each) for each in connections]
    head = ("Class", "Client", "Broker", "From", "Age", "Idle", "Unused", "Sent", "Received", "Why")
    listed = table(head, rows, id="connections-table")
    return section("connections", count_words(total, "connection"), listed, rest(total))


def _connection_row(each: Document) -> Markup:
    role = "" if each["role"] in (each["class"], "unknown") else f"{each['role']}, "
    what = element(
        "td",
        badge(each["class"]),
        element("small", f"{role}{each['tcp_state'].replace('_', ' ')}"),
        class_="who",
        data_sort=str(_ORDER[each["class"]]),
    )
    age = ("" if each["age_is_exact"] else "> ") + duration(each["age_seconds"])
    return element(
        "tr",
        what,
        whose(each),
        element("td", broker(each)),
        element("td", element("code", each["local"])),
        number(each["age_seconds"], age),
        number(each["idle_seconds"], duration(each["idle_seconds"])),
        number(each["unused_seconds"], duration(each["unused_seconds"])),
        number(each["outgoing_bytes"], size(each["outgoing_bytes"])),
        number(each["incoming_bytes"], size(each["incoming_bytes"])),
        element("td", _why(each)),
    )


def _why(each: Document) -> Markup:
    """Tell the first sign at once, and all there is to know on demand."""
    evidence = each["evidence"] or ["nothing tells what it is for"]
    facts = (
        ("closes", each["close_expected"]),
        ("closes in", duration(each["closes_in_seconds"])),
        ("expected by", each["expected_rule"]),
        ("confidence", each["confidence"]),
        ("node", each["node_id"]),
        ("not told from", ", ".join(each["equals"])),
        ("round trip", duration(each["rtt_seconds"])),
        ("retransmits", each["retransmits_total"] or None),
        ("queued", f"{each['send_queue']} to send, {each['receive_queue']} to read"),
        ("owner", f"{each['process']}, pid {each['pid']}, known by {each['owner_rung']}"),
        ("library", each["library"]),
        ("source", each["source"]),
    )
    pairs = [
        element("div", element("dt", name), element("dd", str(value)))
        for name, value in facts
        if value not in (None, "", MISSING, "unknown")
    ]
    return element(
        "details",
        element("summary", evidence[0]),
        element("ul", *(element("li", line) for line in evidence)),
        element("dl", *pairs),
        data_key=each["cookie"],
    )
