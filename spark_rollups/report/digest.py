"""What a report is made of: few rows, whatever the size of the fleet. Values only.

Connections are averages over the hours that were seen: ten that stood for half of them are five.
Every sum is over the whole fleet. A list that grows with it holds the first of its order, and
`Lengths` how many there are.
"""

from __future__ import annotations

__all__ = [
    "BrokerLoad",
    "Cohort",
    "Digest",
    "Found",
    "Hour",
    "Lengths",
    "Opening",
    "Quarantined",
    "Saving",
    "ServiceWaste",
    "Surge",
    "Waste",
    "Waster",
    "Week",
    "Weeks",
]

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime

HOUR_MS = 3_600_000
_FULL = 0.999
OTHER = "other"
"""The name under which all reasons are added up that have no row of their own."""


class Hour(NamedTuple):
    """An hour of the whole fleet; an hour of which nothing is known has no row."""

    at: datetime
    connection_ms: int
    useful_ms: int
    waste_ms: int
    unknown_ms: int
    opened: int
    agents: int
    minutes_seen: int
    minutes_expected: int


class Waste(NamedTuple):
    """The waste of an hour, by reason: the cause, or the class where no cause is known."""

    at: datetime
    reason: str
    waste_ms: int


class Waster(NamedTuple):
    """A service's clients of one library version, on the day."""

    cluster: str | None
    namespace: str | None
    service: str | None
    client_kind: str | None
    library: str | None
    library_version: str | None
    connections: float
    waste: float
    efficiency: float | None
    share: float | None
    """Of the waste of its cluster."""
    reason: str | None
    by_hour: tuple[float | None, ...] = ()
    """What the whole service wasted in each hour of the period."""


class ServiceWaste(NamedTuple):
    """All that a service wastes, on the day."""

    cluster: str | None
    namespace: str | None
    service: str | None
    waste: float


class Saving(NamedTuple):
    """What a fix would save at all brokers, and at which one it saves most of the limit."""

    fix: str
    connections: float
    opened: float
    """An hour."""
    kafka_cluster: str | None
    broker_id: int | None
    share: float | None
    """Of that broker's limit; None where no limit is known."""


class Cohort(NamedTuple):
    """All clients of one version of a library."""

    library: str | None
    library_version: str | None
    client_kind: str | None
    clients: int
    connections: float
    waste: float
    efficiency: float | None
    bootstrap_waste: float = 0.0
    """Of `waste`, what the version decides on: unused bootstrap connections."""


class Surge(NamedTuple):
    """An hour in which a service held far more than usual at a broker."""

    at: datetime
    kafka_cluster: str | None
    cluster: str | None
    namespace: str | None
    service: str | None
    broker_id: int | None
    steady: float
    peak: int
    opened: int
    boots_started: int


class Opening(NamedTuple):
    """An hour in which a service opened connections to a broker at far more than the mean rate."""

    at: datetime
    kafka_cluster: str | None
    cluster: str | None
    namespace: str | None
    service: str | None
    broker_id: int | None
    mean: float
    """A second, over the hour."""
    peak: int
    """Within one second; it never had more."""
    boots_started: int


class BrokerLoad(NamedTuple):
    """How near a broker is to its limit: now, at its worst hour, and if all clients restarted."""

    kafka_cluster: str | None
    broker_id: int | None
    broker: str | None
    connections: int | None
    peak: int | None
    """Most in any minute of the period."""
    forecast_peak: int | None
    max_connections: int | None
    by_hour: tuple[int | None, ...] = ()
    """The most in any minute of each hour of the period, of those that are nearest to the limit."""

    @property
    def worst_share(self) -> float | None:
        """The greatest of all as a share of the limit."""
        known = [n for n in (self.connections, self.peak, self.forecast_peak) if n is not None]
        return max(known) / self.max_connections if self.max_connections and known else None


class Week(NamedTuple):
    """A service in the last seven days and in the seven before."""

    cluster: str | None
    namespace: str | None
    service: str | None
    efficiency: float
    previous_efficiency: float


class Weeks(NamedTuple):
    """How many services got better, worse, or did neither; only those known in both weeks."""

    better: int = 0
    worse: int = 0
    stayed: int = 0


class Found(NamedTuple):
    """What the agents found, and for how long."""

    finding: str
    cause: str | None
    severity: str
    services: int
    active_ms: int
    begun: int


class Quarantined(NamedTuple):
    """Texts that were set aside, by reason."""

    reason: str
    texts: int
    size: int


class Lengths(NamedTuple):
    """How many there are of what the digest has a list of; 0 where the list has them all."""

    reasons: int = 0
    services: int = 0
    """Those that waste any."""
    cohorts: int = 0
    surges: int = 0
    openings: int = 0
    findings: int = 0
    quarantine: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """All of it. `begin` and `end` bound the hours; `day` is that of the daily tables.

    The last hour is a whole one, unless not `whole`: then the tables have none.
    """

    begin: datetime
    end: datetime
    day: datetime
    whole: bool = True
    hours: tuple[Hour, ...]
    waste: tuple[Waste, ...]
    services: int
    clients: int
    wasters: tuple[Waster, ...]
    services_waste: tuple[ServiceWaste, ...]
    """Those that waste most; what all others waste is in a last one, of no name, if there are."""
    savings: tuple[Saving, ...]
    cohorts: tuple[Cohort, ...]
    surges: tuple[Surge, ...]
    openings: tuple[Opening, ...]
    brokers: tuple[BrokerLoad, ...]
    """All of them: a fleet has few enough."""
    moved: tuple[Week, ...]
    """Those that changed most."""
    weeks: Weeks
    findings: tuple[Found, ...]
    quarantine: tuple[Quarantined, ...]
    lengths: Lengths = field(default_factory=Lengths)

    @property
    def connections(self) -> float:
        """Connections held, on average over the hours that are known."""
        return self._average(sum(hour.connection_ms for hour in self.hours))

    @property
    def wasted(self) -> float:
        """Of these, those that served nobody."""
        return self._average(sum(hour.waste_ms for hour in self.hours))

    @property
    def efficiency(self) -> float | None:
        """Useful time over useful and wasted time; None where there was neither."""
        useful = sum(hour.useful_ms for hour in self.hours)
        known = useful + sum(hour.waste_ms for hour in self.hours)
        return useful / known if known else None

    @property
    def coverage(self) -> float | None:
        """Minutes seen of all minutes of the period, hours without any row included.

        An hour that nobody saw is expected to have had as many agents as the others.
        """
        expected = sum(hour.minutes_expected for hour in self.hours)
        if not expected:
            return None
        missing = self.hours_in_period - len(self.hours)
        expected += missing * expected // len(self.hours)
        return min(1.0, sum(hour.minutes_seen for hour in self.hours) / expected)

    @property
    def partly_seen(self) -> tuple[Hour, ...]:
        """The hours of which more than one minute in a thousand was not seen."""
        return tuple(
            hour for hour in self.hours if hour.minutes_seen < _FULL * max(1, hour.minutes_expected)
        )

    @property
    def hours_in_period(self) -> int:
        """How many hours lie between begin and end."""
        return round((self.end - self.begin).total_seconds() / 3600)

    def _average(self, total_ms: int) -> float:
        return total_ms / (HOUR_MS * len(self.hours)) if self.hours else 0.0
