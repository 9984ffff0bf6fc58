"""Figures and names as people read them: no name can do harm, a missing figure is a dash."""

from __future__ import annotations

__all__ = [
    "FIXES",
    "amount",
    "broker_words",
    "fewer",
    "fix_words",
    "of_all",
    "percent",
    "printable",
    "reason_words",
    "service_words",
    "version_words",
    "when",
]

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime

    from spark_rollups.report.digest import Cohort, Waster

_LONGEST = 120
# A dash: missing is no zero.
_NOTHING = "\N{EN DASH}"
_TEN, _MILLION = 10, 1_000_000
_LEAST_SHOWN = 0.05


class Fix(NamedTuple):
    """What to change, why, and which runbook says how."""

    title: str
    advice: str
    runbook: str = ""


FIXES = {
    "fewer_bootstrap_servers": Fix(
        "List two bootstrap servers",
        "Java clients never use a bootstrap connection again once they know the brokers. List two"
        " servers instead of all, and keep connections.max.idle.ms at its default, which closes"
        " what is left after 9 minutes.",
        "KafkaClientUnusedConnections",
    ),
    "update_librdkafka": Fix(
        "Update librdkafka to 2.10 or later",
        "Older versions keep a bootstrap connection whose address is not the advertised one,"
        " however few servers are listed.",
        "KafkaClientZombieConnections",
    ),
    "idle_closing_on": Fix(
        "Let clients close idle connections",
        "connections.max.idle.ms=-1, or a limit that failed, keeps dead connections for ever.",
        "KafkaClientIdleClosingOff",
    ),
    "one_shared_client": Fix(
        "Share one client per process",
        "Several producers or consumers do what one would.",
        "KafkaClientExcessConnections",
    ),
    "poll_or_close": Fix(
        "Poll, or close the consumer",
        "The broker has closed, the stuck application has not noticed.",
        "KafkaClientHalfClosedConnections",
    ),
    "close_on_error": Fix(
        "Close clients after an error",
        "Their sockets are dead, their descriptors leak.",
        "KafkaClientGhostDescriptors",
    ),
    "resolve_again": Fix(
        "Resolve broker names again",
        "A broker moved, and clients keep its old address.",
        "KafkaClientStaleEndpoint",
    ),
    "client_kept": Fix(
        "Keep the client between requests",
        "A client for each request costs the broker a connection setup each.",
        "KafkaClientConnectionChurn",
    ),
    "probe_less": Fix(
        "Probe less often",
        "TCP health checks open connections that say nothing.",
        "KafkaClientConnectionChurn",
    ),
}

_REASONS = {
    "superseded_bootstrap": "superseded bootstrap",
    "idle_closing_off": "idle closing off",
    "idle_closing_failed": "idle closing failed",
    "excess_instances": "excess instances",
    "unclaimed": "unclaimed twins",
    "not_closed_after_broker": "half closed",
    "descriptor_leak": "leaked descriptors",
    "broker_moved": "broker moved",
    "probe": "probes",
    "half_closed": "half closed",
}


def printable(text: str | None, longest: int = _LONGEST) -> str:
    """Show a name of unknown origin: what is invisible as an escape, what is long cut."""
    if text is None:
        return _NOTHING
    shown = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape", "replace").decode()
        for letter in text[: longest + 1]
    )
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def amount(value: float | None) -> str:
    """Write a count (an int) or an average: as many digits as say something."""
    if value is None:
        return _NOTHING
    if abs(value) >= _TEN * _MILLION:
        return f"{value / _MILLION:,.0f} M"
    if isinstance(value, int) or abs(value) >= _TEN or not value:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= _LEAST_SHOWN else "< 0.1"


def fewer(value: float) -> str:
    """Write what would be saved."""
    return f"\N{MINUS SIGN}{amount(value)}"


def percent(share: float | None) -> str:
    """Write a share; never 100% or 0% for what is only nearly so."""
    if share is None:
        return _NOTHING
    shown = f"{share * 100:.0f}"
    if shown == "100" and share < 1:
        return f"{min(share * 100, 99.9):.1f}%"
    if shown == "0" and share > 0:
        return "< 1%"
    return f"{shown}%"


def fix_words(fix: str) -> Fix:
    """Return what is known of a fix; one of a newer version has its name alone."""
    return FIXES.get(fix) or Fix(printable(fix), "")


def reason_words(reason: str | None) -> str:
    """Name a cause or class of waste."""
    if reason is None:
        return _NOTHING
    return _REASONS.get(reason) or printable(reason).replace("_", " ")


def service_words(namespace: str | None, service: str | None) -> str:
    """Name a service with its namespace."""
    return (
        f"{printable(namespace, 40)}/{printable(service, 60)}" if namespace else printable(service)
    )


def version_words(of: Cohort | Waster) -> str:
    """Name a library with its version and the kind of its clients, as far as they are known."""
    parts = (of.library, of.library_version, of.client_kind)
    return " ".join(printable(part, 30) for part in parts if part)


def broker_words(kafka_cluster: str | None, broker_id: int | None, longest: int = _LONGEST) -> str:
    """Name a broker with its cluster; an id that nobody knows is a dash."""
    return f"{printable(kafka_cluster, longest)} {_NOTHING if broker_id is None else broker_id}"


def of_all(shown: int, in_all: int, what: str) -> str:
    """Say how many more there are than can be seen; nothing where all can."""
    if in_all <= shown:
        return ""
    return f" These are the first {amount(shown)} of {amount(in_all)} {what}."


def when(moment: datetime) -> str:
    """Write a time in UTC."""
    return f"{moment:%a %d %b %Y, %H:%M}"
