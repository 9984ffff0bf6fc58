"""The settings of `brokerwire rules render`.

As in `exporter.config.settings`: fields are keys, a float is a duration, an int a whole number
from 1, and a rule between fields is a ValueError that begins with the `key`.
"""

from __future__ import annotations

__all__ = ["AlertOverride", "LinkSettings", "RuleSettings", "Thresholds"]

import re
from dataclasses import dataclass, field

from exporter.alerts.catalogue import ALERTS_BY_NAME
from exporter.snapshot import Severity  # noqa: TC001  (the reader resolves the hints)

_LABEL = r"[a-zA-Z_][a-zA-Z0-9_]*"
_MATCHER = re.compile(_LABEL + r'(?:=|!=|=~|!~)"(?:[^"\\\n]|\\["\\.])*"')
_RESERVED = ("alertname", "severity", "class", "finding", "le")
_HIGHEST_PERCENT = 100
_SHORTEST_WINDOW_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The numbers in the expressions; an alert says of each why it is what it is."""

    gap: float = 180.0
    """A series whose last scrapes failed keeps its last value for so long."""
    zombie_connections: int = 1
    """So many zombies of one client to one broker, or more."""
    excess_connections: int = 1
    """So many connections of clients that a process does not need."""
    unused_connections: int = 3
    """So many connections of a process that have carried nothing since they were opened."""
    unused_percent: int = 50
    """At least this share of a process's connections must be unused."""
    client_instances: int = 10
    """So many producers, or other clients that are no consumers, in one process."""
    half_closed_connections: int = 1
    """So many connections that the broker has closed and one client has not."""
    ghost_descriptors: int = 1
    """So many descriptors with a dead socket, by client and broker."""
    stale_connections: int = 1
    """So many connections to an address that is no longer the broker's."""
    churn_connections: int = 4
    """So many connections opened and closed by one pattern."""
    connecting_connections: int = 1
    """So many connection attempts to one broker in progress."""
    failed_connects: int = 4
    """So many attempts to one broker that failed in five minutes."""
    storm_rounds: int = 3
    """A broker that drops all its connections more often than this in `storm_window`."""
    storm_connections: int = 20
    """A storm loses at least so many connections in `storm_window`."""
    storm_window: float = 300.0
    """A storm is looked for in so long; five scrapes or more."""
    efficiency_percent: int = 50
    """A client below this share of useful connection-seconds in `efficiency_window` is wasteful."""
    efficiency_window: float = 3600.0
    """A client's efficiency is that of so long; a finding waits for half of it."""
    wasted_connections: int = 1
    """A client must waste so many connections on average before its efficiency matters."""
    descriptor_percent: int = 80
    """How much of its limit of open files a client's process may use."""
    near_limit_percent: int = 80
    """How much of a broker's limit may be used."""
    max_connections: int | None = None
    """The brokers' `max.connections`, in place of what the agents know."""
    max_connections_per_ip: int | None = None
    """The brokers' `max.connections.per.ip`, in place of what the agents know."""
    poll_age: float = 300.0
    """A poll older than this is too old."""

    def __post_init__(self) -> None:
        for key in (
            "unused_percent",
            "efficiency_percent",
            "descriptor_percent",
            "near_limit_percent",
        ):
            if getattr(self, key) > _HIGHEST_PERCENT:
                raise ValueError(f"`{key}` must be a whole number from 1 to 100")
        for key in ("storm_window", "efficiency_window"):
            if getattr(self, key) < _SHORTEST_WINDOW_SECONDS:
                raise ValueError(f"`{key}` must be 10s or more: a rate needs some scrapes")
        if self.poll_age <= self.gap:
            raise ValueError("`poll_age` must be longer than `gap`: one missed scrape is no fault")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertOverride:
    """Changes of one alert, by its name; what is not there stays as it is."""

    name: str
    """The alert."""
    enabled: bool = True
    """Whether the alert is written at all."""
    severity: Severity | None = None
    """How soon somebody should look."""
    fire_after: float | None = None
    """How long it must be true (Prometheus calls it `for`)."""
    keep_firing_for: float | None = None
    """How long it goes on firing after it is no longer true."""

    def __post_init__(self) -> None:
        if self.name not in ALERTS_BY_NAME:
            # Only now: it is never needed by an agent that runs.
            from difflib import get_close_matches

            near = get_close_matches(self.name, ALERTS_BY_NAME, n=1)
            remedy = f"did you mean '{near[0]}'?" if near else "rules/README.md lists them"
            raise ValueError(f"`name` is not an alert; {remedy}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """Where the pages are; `{alert}`, `{dashboard}` and `{variables}` are filled in."""

    runbooks: str = "docs/runbooks/{alert}.md"
    """Address of a runbook; the default is its place in brokerwire's sources."""
    dashboards: str = "/d/{dashboard}?{variables}"
    """Address of a dashboard; the default is its path in Grafana with the alert's labels."""

    def __post_init__(self) -> None:
        for key, part in (("runbooks", "{alert}"), ("dashboards", "{dashboard}")):
            if part not in getattr(self, key):
                raise ValueError(f"`{key}` must have {part} in it")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSettings:
    """Everything that can be changed; the defaults make the files in rules/."""

    scope: tuple[str, ...] = ()
    """Label matchers that go into every selector, such as `namespace="shop"`."""
    labels: dict[str, str] = field(default_factory=dict)
    """Labels that every alert gets, such as `team: streaming`."""
    service_labels: tuple[str, ...] = ("cluster", "namespace", "job")
    """The scrape's labels that identify a service."""
    fleet_labels: tuple[str, ...] = ("cluster",)
    """The scrape's labels that identify a fleet with its own brokers."""
    thresholds: Thresholds = Thresholds()
    alerts: tuple[AlertOverride, ...] = ()
    """Changes of single alerts."""
    links: LinkSettings = LinkSettings()

    def __post_init__(self) -> None:
        for matcher in self.scope:
            if not _MATCHER.fullmatch(matcher):
                raise ValueError(
                    f'`scope` must have matchers such as namespace="shop", not {matcher!r}'
                )
        for name, value in self.labels.items():
            if not re.fullmatch(_LABEL, name) or name.startswith("__") or name in _RESERVED:
                raise ValueError(f"`labels` must not have a label {name!r}")
            if "{{" in value:
                raise ValueError(f"`labels` must not have a template: {value!r}")
        for key in ("service_labels", "fleet_labels"):
            wrong = [name for name in getattr(self, key) if not re.fullmatch(_LABEL, name)]
            if wrong or not getattr(self, key):
                raise ValueError(f"`{key}` must name at least one label, and nothing but labels")
        names = [alert.name for alert in self.alerts]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise ValueError(f"`alerts` has the name {doubled[0]!r} more than once")
