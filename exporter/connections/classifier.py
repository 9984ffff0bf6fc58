"""The one class of each connection, with its evidence: DESIGN section 5, from the top.

Two questions, in this order: what was it opened for (role), and what has become of it (class).
Pure: everything that is known comes in a `Standing` and the settings; the time is an argument.
"""

from __future__ import annotations

__all__ = ["Standing", "Verdict", "classify", "role_of", "steps_of"]

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from exporter.connections.signs import SILENCE_SECONDS
from exporter.model import (
    Cause,
    Confidence,
    ConnectionClass,
    Library,
    OwnerRung,
    Role,
    TcpState,
)
from exporter.text import duration

if TYPE_CHECKING:
    from exporter.config.settings import ClassSettings, Settings
    from exporter.connections.signs import Sign
    from exporter.connections.tracked import TrackedConnection
    from exporter.model import Attribution

# The client closes idle connections when it polls, one at a time, an idle producer up to its
# request timeout (30 s) late (measured); after a minute more it has failed to.
CLOSING_GRACE_SECONDS = 60.0

# A connection whose first bytes are under way is too young to be called a probe.
LEAST_PROBE_SECONDS = 1.0

# The broker's own connections.max.idle.ms: it closes what the client has forgotten.
BROKER_IDLE_SECONDS = 600.0

_CLASS_OF_ROLE = {
    Role.BOOTSTRAP: ConnectionClass.BOOTSTRAP,
    Role.COORDINATOR: ConnectionClass.COORDINATOR,
    Role.TRANSACTION: ConnectionClass.TRANSACTION,
    Role.DATA: ConnectionClass.DATA,
    Role.ADMIN: ConnectionClass.ADMIN,
    Role.PROBE: ConnectionClass.PROBE,
    Role.UNKNOWN: ConnectionClass.UNKNOWN,
}

_USEFUL = frozenset(
    {
        ConnectionClass.DATA,
        ConnectionClass.COORDINATOR,
        ConnectionClass.TRANSACTION,
        ConnectionClass.ADMIN,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What is known around a connection.

    `idle_limit` is the client's in seconds, 0 where idle closing is off, None where unknown;
    `idle_limit_known`: the limit was configured, it is not a library's default.
    `learned` is whether the client has learned its brokers. `sign` is the role that the kernel's
    figures show. `stale` and `excess` are reasons.
    """

    attribution: Attribution | None = None
    library: Library = Library.UNKNOWN
    learned: bool = False
    idle_limit: float | None = None
    idle_limit_known: bool = False
    sign: Sign | None = None
    stale: str | None = None
    excess: str | None = None
    excess_cause: Cause | None = None


class Verdict(NamedTuple):
    """A connection's class and role, what they rest on, and what will end the connection."""

    connection_class: ConnectionClass
    role: Role
    confidence: Confidence
    evidence: tuple[str, ...]
    useful: bool
    close_expected: str
    closes_in_seconds: float | None
    cause: Cause | None = None


class _Fate(NamedTuple):
    connection_class: ConnectionClass
    reasons: tuple[str, ...]
    close_expected: str
    closes_in_seconds: float | None = None
    cause: Cause | None = None


def role_of(
    tracked: TrackedConnection, standing: Standing, settings: ClassSettings, now: float
) -> tuple[Role, Confidence, tuple[str, ...]]:
    """Return what a connection was opened for, how sure that is, and why."""
    attribution = standing.attribution
    sign = standing.sign
    if attribution is not None:
        if attribution.node.role is Role.UNKNOWN and sign is not None:
            # Its metrics name the client, not the purpose.
            return sign.role, sign.confidence, (sign.evidence, *attribution.evidence)
        return attribution.node.role, attribution.confidence, attribution.evidence
    if probe := _probe_reason(tracked, settings, now):
        return Role.PROBE, Confidence.STRONG, (probe,)
    if sign is not None:
        return sign.role, sign.confidence, (sign.evidence,)
    if tracked.age_seconds(now) < settings.settle_after:
        return Role.UNKNOWN, Confidence.NONE, ("too young to classify",)
    return (
        Role.UNKNOWN,
        Confidence.NONE,
        ("no client's metrics claim it, and the kernel's figures fit more than one role",),
    )


def classify(
    tracked: TrackedConnection, standing: Standing, settings: ClassSettings, now: float
) -> Verdict:
    """Return the class of a connection: the first that fits, from the top of DESIGN section 5."""
    role, confidence, evidence = role_of(tracked, standing, settings, now)
    fate = (
        _ended(tracked, now)
        or _misplaced(standing)
        or _zombie(tracked, role, standing, settings, now)
        or _in_use(tracked, role, standing, now)
    )
    useful = fate.connection_class in _USEFUL or (
        fate.connection_class is ConnectionClass.BOOTSTRAP and not standing.learned
    )
    return Verdict(
        connection_class=fate.connection_class,
        role=role,
        confidence=confidence,
        evidence=(*fate.reasons, *evidence),
        useful=useful,
        close_expected=fate.close_expected,
        closes_in_seconds=fate.closes_in_seconds,
        cause=fate.cause,
    )


def steps_of(settings: Settings) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the ages and the silences, in seconds, at which a class may change by time alone."""
    classes = settings.classes
    limits = {
        rule.connections_max_idle + CLOSING_GRACE_SECONDS
        for rule in settings.clients.rules
        if rule.connections_max_idle
    }
    ages = {LEAST_PROBE_SECONDS, classes.probe_within, classes.settle_after}
    silences = {SILENCE_SECONDS, classes.settle_after, classes.zombie_after, *limits}
    # A touch later than the step itself, so that a look at that moment finds it passed.
    return tuple(sorted(age + 1e-3 for age in ages)), tuple(sorted(s + 1e-3 for s in silences))


def _ended(tracked: TrackedConnection, now: float) -> _Fate | None:
    """Return the class that TCP itself shows, if any."""
    if tracked.ghost:
        seen = (
            "its descriptor is still open"
            if tracked.descriptor_seen
            else "no close was announced, so its descriptor must still be open"
        )
        return _Fate(
            ConnectionClass.GHOST,
            (f"the socket is gone from the kernel's table, but {seen}",),
            "nothing but the process: it must close the descriptor or end",
            cause=Cause.DESCRIPTOR_LEAK,
        )
    state = tracked.reading.tcp_state
    if state is TcpState.CLOSE_WAIT:
        since = max(0.0, now - tracked.state_since)
        return _Fate(
            ConnectionClass.HALF_CLOSED,
            (f"closed by the broker at least {duration(since)} ago, not by the client",),
            "the client, when its application polls again or closes the client",
            cause=Cause.NOT_CLOSED_AFTER_BROKER,
        )
    if state in {TcpState.SYN_SENT, TcpState.SYN_RECV}:
        retries = tracked.reading.retransmits
        return _Fate(
            ConnectionClass.CONNECTING,
            (f"TCP handshake not complete, {retries} SYN retries",),
            "socket.connection.setup.timeout.ms (Java: 10 s, then up to 30 s; librdkafka: 30 s)",
        )
    return None


def _misplaced(standing: Standing) -> _Fate | None:
    if standing.stale is None:
        return None
    return _Fate(
        ConnectionClass.STALE,
        (standing.stale,),
        "the client's request timeout, once the old address stops answering",
        cause=Cause.BROKER_MOVED,
    )


def _zombie(
    tracked: TrackedConnection,
    role: Role,
    standing: Standing,
    settings: ClassSettings,
    now: float,
) -> _Fate | None:
    """Return the class of a connection that idle closing should have ended, or never will."""
    idle = tracked.idle_seconds(now)
    limit = standing.idle_limit
    off = limit == 0 and (standing.idle_limit_known or standing.library is Library.LIBRDKAFKA)
    superseded = role is Role.BOOTSTRAP and standing.learned
    if superseded and off and idle >= settings.settle_after:
        return _Fate(
            ConnectionClass.ZOMBIE,
            (f"unused bootstrap connection: idle {duration(idle)}, idle timeout disabled",),
            "nothing on the client's side: idle timeout disabled (connections.max.idle.ms)",
            cause=Cause.IDLE_CLOSING_OFF,
        )
    moment = settings.zombie_after
    if limit and standing.idle_limit_known:
        moment = limit + CLOSING_GRACE_SECONDS
    if idle < moment or not _should_have_ended(tracked, role, standing, settings, off=off):
        return None
    if off:
        return _Fate(
            ConnectionClass.ZOMBIE,
            (f"idle {duration(idle)}, idle timeout disabled",),
            "nothing on the client's side: idle timeout disabled (connections.max.idle.ms)",
            cause=Cause.IDLE_CLOSING_OFF,
        )
    return _Fate(
        ConnectionClass.ZOMBIE,
        (f"idle {duration(idle)}: the idle timeout should have closed it",),
        "the broker's connections.max.idle.ms (10 min by default), if that is on",
        cause=Cause.IDLE_CLOSING_FAILED,
    )


def _should_have_ended(
    tracked: TrackedConnection,
    role: Role,
    standing: Standing,
    settings: ClassSettings,
    *,
    off: bool,
) -> bool:
    """Whether an idle connection has no reason to be there (not merely a quiet client)."""
    if role is Role.BOOTSTRAP and (standing.learned or standing.attribution is None):
        return True
    never_used_again = tracked.last_activity_at - tracked.opened_at <= settings.settle_after
    attribution = standing.attribution
    if attribution is None:
        # A connection of known use is kept where idle closing is off: the client may be quiet.
        closes = standing.library is Library.JAVA and not (off and role is not Role.UNKNOWN)
        return closes or (role is Role.UNKNOWN and never_used_again)
    if standing.library is Library.LIBRDKAFKA:
        return attribution.node.partitions == 0 and role is Role.DATA
    return not off


def _in_use(tracked: TrackedConnection, role: Role, standing: Standing, now: float) -> _Fate:
    limit, idle = standing.idle_limit, tracked.idle_seconds(now)
    if standing.excess is not None:
        return _Fate(
            ConnectionClass.EXCESS,
            (standing.excess,),
            _idle_close(limit),
            _left(limit, idle),
            standing.excess_cause,
        )
    reasons: tuple[str, ...] = ()
    cause: Cause | None = None
    if role is Role.BOOTSTRAP and standing.learned:
        reasons = ("the client knows its brokers and does not use this connection any more",)
        cause = Cause.SUPERSEDED_BOOTSTRAP
    return _Fate(_CLASS_OF_ROLE[role], reasons, _idle_close(limit), _left(limit, idle), cause)


def _idle_close(limit: float | None) -> str:
    if limit is None:
        return "unknown: the client's connections.max.idle.ms is not known"
    if limit == 0:
        return "only the broker's connections.max.idle.ms (10 min by default): the client's is off"
    return f"the client's connections.max.idle.ms, after {duration(limit)} idle"


def _left(limit: float | None, idle: float) -> float | None:
    if limit is None:
        return None
    return max(0.0, (limit or BROKER_IDLE_SECONDS) - idle)


def _probe_reason(tracked: TrackedConnection, settings: ClassSettings, now: float) -> str | None:
    owner = tracked.owner
    if owner.rung is not OwnerRung.PROC_FD or owner.library is not Library.UNKNOWN:
        # A consumer whose application does not poll connects and sends nothing for long.
        return None
    info = tracked.reading.info
    age = tracked.age_seconds(now)
    if info is None or tracked.reading.tcp_state is not TcpState.ESTABLISHED:
        return None
    if not LEAST_PROBE_SECONDS <= age <= settings.probe_within or not tracked.age_is_exact:
        return None
    if info.data_segments_in == 0 and info.data_segments_out == 0:
        return f"open for {duration(age)}, no bytes either way, no Kafka library in its process"
    return None
