"""A connection as last described, and the sequence of all of them for a snapshot.

A poll keeps the view of a connection to which nothing happens. What people and scrapes want to read
of it is made only when somebody asks: most polls are asked by nobody.
Pure.
"""

from __future__ import annotations

__all__ = ["Connections", "View", "connection_at", "libraries", "timings"]

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, overload

from exporter.connections.unused import OPENING_SECONDS
from exporter.model import ClientKind, Connection, Library
from exporter.snapshot import ClientLibrary, Timing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from exporter.connections.classifier import Verdict
    from exporter.connections.kernel_clients import KernelClient
    from exporter.model import Attribution, ClientGroup, Owner, SocketReading
    from exporter.snapshot import ClientBroker


class View(NamedTuple):
    """A connection as it was last looked at; immutable, kept while nothing happens to it."""

    cookie: int
    reading: SocketReading
    owner: Owner
    verdict: Verdict
    attribution: Attribution | None
    library: Library
    broker_id: int | None
    rule: str | None
    key: ClientBroker
    opened_at: float
    age_is_exact: bool
    last_activity_at: float
    unanswered_since: float | None
    looked_at: float
    due: float
    """When time alone may change its class."""
    library_version: str | None = None
    group: ClientGroup | None = None
    client: KernelClient | None = None
    client_id: str | None = None
    client_kind: ClientKind = ClientKind.UNKNOWN
    idle_limit: float | None = None
    was_used: bool = True
    """Whether bytes certainly went over it after its opening."""
    unused_since: float | None = None
    """Since when nothing has gone over it, where its opening was the last that did."""


class Connections(Sequence[Connection]):
    """The connections of a snapshot, made only when somebody asks."""

    def __init__(self, views: tuple[View, ...], at: float) -> None:
        self._views = views
        self._at = at
        self._made: tuple[Connection, ...] | None = None

    @property
    def views(self) -> Sequence[View]:
        """What the connections are made of: the same object while nothing happens to one."""
        return self._views

    @overload
    def __getitem__(self, index: int) -> Connection: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Connection]: ...
    def __getitem__(self, index: int | slice) -> Connection | Sequence[Connection]:
        if self._made is None:
            self._made = tuple(connection_at(view, self._at) for view in self._views)
        return self._made[index]

    def __len__(self) -> int:
        return len(self._views)


def _unused_seconds(view: View, at: float) -> float | None:
    if view.unused_since is None or at - view.unused_since < OPENING_SECONDS:
        return None
    return at - view.unused_since


def timings(views: Iterable[View], at: float) -> dict[ClientBroker, Timing]:
    """Return idle times and round trips by client and broker."""
    first: dict[ClientBroker, float] = {}
    last: dict[ClientBroker, tuple[float, int | None]] = {}
    unused: Counter[ClientBroker] = Counter()
    for view in views:
        info = view.reading.info
        if info is None:
            continue
        key, active_at = view.key, view.last_activity_at
        unused[key] += _unused_seconds(view, at) is not None
        if key not in first:
            first[key] = active_at
            last[key] = (active_at, info.rtt_us)
            continue
        first[key] = min(first[key], active_at)
        if active_at > last[key][0]:
            last[key] = (active_at, info.rtt_us)
    return {
        key: Timing(max(0.0, at - active_at), _seconds(last[key][1]), unused[key])
        for key, active_at in first.items()
    }


def libraries(views: Iterable[View]) -> dict[ClientBroker, frozenset[ClientLibrary]]:
    """Return the libraries behind the connections of each client and broker."""
    found: dict[ClientBroker, set[ClientLibrary]] = {}
    for view in views:
        if view.library is not Library.UNKNOWN:
            library = ClientLibrary(view.library, view.library_version)
            found.setdefault(view.key, set()).add(library)
    return {key: frozenset(each) for key, each in found.items()}


def _seconds(microseconds: int | None) -> float | None:
    return None if microseconds is None else microseconds / 1e6


def connection_at(view: View, at: float) -> Connection:
    """Say of a connection what there is to read of it at some moment."""
    reading, verdict, attribution = view.reading, view.verdict, view.attribution
    info = reading.info
    waited = at - view.looked_at
    closes_in = verdict.closes_in_seconds
    return Connection(
        cookie=view.cookie,
        local=reading.local,
        remote=reading.remote,
        tcp_state=reading.tcp_state,
        connection_class=verdict.connection_class,
        role=verdict.role,
        confidence=verdict.confidence,
        evidence=verdict.evidence,
        owner=view.owner,
        client_id=view.client_id,
        client_kind=view.client_kind,
        client_instance=attribution.client.instance if attribution is not None else "",
        library=view.library,
        node_id=attribution.node.node_id if attribution is not None else None,
        broker_id=view.broker_id,
        broker=str(reading.remote),
        useful=verdict.useful,
        equals=attribution.equals if attribution is not None else (),
        age_seconds=max(0.0, at - view.opened_at),
        age_is_exact=view.age_is_exact,
        idle_seconds=max(0.0, at - view.last_activity_at) if info is not None else None,
        outgoing_bytes=reading.outgoing_bytes,
        incoming_bytes=reading.incoming_bytes,
        send_queue=reading.send_queue,
        receive_queue=reading.receive_queue,
        retransmits_total=info.retransmits_total if info is not None else None,
        rtt_seconds=_seconds(info.rtt_us) if info is not None else None,
        source=attribution.client.source if attribution is not None else None,
        expected_rule=view.rule,
        close_expected=verdict.close_expected,
        closes_in_seconds=max(0.0, closes_in - waited) if closes_in is not None else None,
        unanswered_seconds=(
            max(0.0, at - view.unanswered_since) if view.unanswered_since is not None else None
        ),
        group=view.group,
        unused_seconds=_unused_seconds(view, at),
        idle_limit_seconds=view.idle_limit,
    )
