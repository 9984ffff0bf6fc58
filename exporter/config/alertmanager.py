"""The section `alertmanager` of the configuration."""

from __future__ import annotations

__all__ = ["AlertmanagerSettings", "AlertmanagerTarget"]

import re
from dataclasses import dataclass, field

from exporter.config.credentials import Credentials, check_credentials
from exporter.config.types import Url  # noqa: TC001  (read at run time, by `hints_of`)

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_PLAIN_URL = re.compile(r"https?://(?:\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::[0-9]{1,5})?(?:/[\w./~%+-]*)?")
_RESERVED = ("alertname", "severity")
# Each has a thread of its own.
MOST_TARGETS = 8
SHORTEST_INTERVAL = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertmanagerTarget(Credentials):
    """One Alertmanager: each member of a cluster, never a load balancer before them."""

    url: Url
    """Its address without `/api/v2/alerts`; a path prefix belongs to it."""
    timeout: float = 10.0
    """Total timeout of a request."""

    def __post_init__(self) -> None:
        check_credentials(self)
        if "?" in self.url:
            raise ValueError("`url` must not have a query: it is shown in metrics and logs")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertmanagerSettings:
    """Post alerts to Alertmanagers, where no Prometheus loads the rules."""

    targets: tuple[AlertmanagerTarget, ...]
    """The Alertmanagers; each gets every alert, and one that is down does not delay the others."""
    interval: float = 60.0
    """Resend interval of a firing alert; Alertmanager resolves it after four without a resend."""
    labels: dict[str, str] = field(default_factory=dict)
    """Labels added to every alert, such as `namespace` and `pod`: no scrape adds them here."""
    external_url: str | None = None
    """URL of the agent's page, the link of each alert."""
    rules_file: str | None = None
    """The file of `brokerwire rules render --settings`: it holds here, too."""
    max_alerts: int = 1000
    """Maximum number of tracked alerts, and of alerts queued for one Alertmanager."""

    def __post_init__(self) -> None:
        if not 1 <= len(self.targets) <= MOST_TARGETS:
            raise ValueError(f"`targets` must name 1 to {MOST_TARGETS} Alertmanagers")
        urls = [target.url.rstrip("/") for target in self.targets]
        if len(set(urls)) < len(urls):
            raise ValueError("`targets` has a URL more than once")
        if self.interval < SHORTEST_INTERVAL:
            raise ValueError("`interval` must be 1s or more: nothing changes faster")
        for name in self.labels:
            if not _LABEL.fullmatch(name) or name.startswith("__") or name in _RESERVED:
                raise ValueError(f"`labels` must not have a label {name!r}")
        if self.external_url is not None and not _PLAIN_URL.fullmatch(self.external_url):
            raise ValueError(
                "`external_url` must be an http:// or https:// URL: host, port and path"
            )
