"""High connection churn, and the setting that causes it.

Each cause has a shape of its own (who closes, how long they live, how many end at once), measured
in KAFKA_CLIENTS S4, S6, S9 and S10. Time is counted in moments: what ends within a second, such as
the connections of one client that is closed or of one broker that restarts, is one event.
Pure.
"""

from __future__ import annotations

__all__ = ["find_churn"]

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean, median
from typing import TYPE_CHECKING

from exporter.alerts.churn import BROKER_IDLE, METADATA, PER_REQUEST, PROBE, UNCLEAR
from exporter.findings.findings import finding_of_alert
from exporter.model import ClosedBy
from exporter.text import duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from exporter.alerts.churn import ChurnCause
    from exporter.connections.endings import ClosedConnection
    from exporter.snapshot import ClientBroker, Finding

    Ending = tuple[ClientBroker, ClosedConnection]

# How far back endings count: Java's metadata refresh is 5 minutes, four of them make a pattern.
WINDOW_SECONDS = 1500.0
LEAST_MOMENTS = 4

# What ends within so long is one event; a probe or an attempt each second are several.
MOMENT_SECONDS = 0.8

# A pattern that stopped is over when it misses three of its own periods.
MISSED_PERIODS = 3.0
LEAST_QUIET_SECONDS = 5.0

# Lives within this ratio of their median are of one kind: a timer's work, not an application's.
SAME_LIFE = 0.25
POLL_SECONDS = 1.0
MOST = 0.7

# A client that lives no longer did one job: a request's, not a process's.
SHORT_LIFE_SECONDS = 60.0

# ApiVersions (twice from Java 4.4 on), Metadata and one more: a refresh sends no more on a new
# connection, 58 to 177 bytes with short names (KAFKA_CLIENTS S6).
REFRESH_SEGMENTS = 4

# More clients of one process with the same cause are put into one finding.
MOST_NAMED = 5

# A life between two polls is known to within the events' delay.
LEAST_LIFE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class _Run:
    """Endings of one kind, in the order of time, in the moments that they fall into."""

    endings: Sequence[Ending]
    moments: Sequence[float]

    @property
    def period(self) -> float:
        return median(later - earlier for earlier, later in pairwise(self.moments))

    def is_pattern(self, now: float, least: int = LEAST_MOMENTS) -> bool:
        """Whether it has come again and again, and has not stopped."""
        if len(self.moments) < least:
            return False
        quiet = max(LEAST_QUIET_SECONDS, MISSED_PERIODS * self.period)
        return now - self.moments[-1] <= quiet


def find_churn(
    closed: Iterable[Ending], now: float, failed_connects: int = LEAST_MOMENTS
) -> list[Finding]:
    """Return a finding for every client and cause with churn.

    So many attempts that fail make a broker that cannot be reached: the operator's own threshold.
    """
    probes: dict[str, list[Ending]] = defaultdict(list)
    refused: dict[str, list[Ending]] = defaultdict(list)
    clients: dict[tuple[str, str], list[Ending]] = defaultdict(list)
    for ending in sorted(closed, key=lambda ending: ending[1].at):
        key, ended = ending
        if now - ended.at > WINDOW_SECONDS:
            continue
        if ended.closed_by is ClosedBy.REFUSED:
            refused[key.broker].append(ending)
        elif ended.hung_up:
            probes[key.broker].append(ending)
        else:
            clients[key.process, key.client_kind].append(ending)
    findings = []
    for broker, endings in probes.items():
        findings += _probe(broker, _run(endings), now)
    for broker, endings in refused.items():
        findings += _refused(broker, _run(endings), now, failed_connects)
    for endings in clients.values():
        findings += _clients(endings, now)
    return findings


def _run(endings: Sequence[Ending]) -> _Run:
    moments: list[float] = []
    for _key, ended in endings:
        if not moments or ended.at - moments[-1] > MOMENT_SECONDS:
            moments.append(ended.at)
    return _Run(endings, moments)


def _probe(broker: str, run: _Run, now: float) -> list[Finding]:
    if not run.is_pattern(now):
        return []
    text = (
        f"{len(run.endings)} connections to {broker},"
        f" one every {duration(run.period)}: {PROBE.text}."
    )
    labels = {"broker": broker, "cause": PROBE.name}
    return [_finding_of(PROBE, labels, text, run.endings)]


def _refused(broker: str, run: _Run, now: float, failed_connects: int) -> list[Finding]:
    # Without a second moment there is no period, and nobody can say that it has not stopped.
    least = max(2, min(LEAST_MOMENTS, failed_connects))
    if len(run.endings) < failed_connects or not run.is_pattern(now, least):
        return []
    text = (
        f"{len(run.endings)} connection attempts to {broker} failed, the last"
        f" {duration(now - run.moments[-1])} ago."
    )
    count = float(len(run.endings))
    return [finding_of_alert("KafkaClientBrokerUnreachable", {"broker": broker}, text, count)]


def _clients(endings: Sequence[Ending], now: float) -> list[Finding]:
    """Find the causes in one process: by client where clients are known, else all together."""
    named: dict[str, list[Ending]] = defaultdict(list)
    for ending in endings:
        named[ending[0].client_id].append(ending)
    unnamed = named.pop("", [])
    single = [run for run in map(_run, named.values()) if len(run.moments) < LEAST_MOMENTS]
    found: dict[ChurnCause, list[_Run]] = defaultdict(list)
    for run in map(_run, named.values()):
        if run.is_pattern(now) and (cause := _cause(run, is_one_client=True)):
            found[cause].append(run)
    if len(single) >= LEAST_MOMENTS or unnamed:
        # Clients of one job each show once, if at all: only together are they a pattern.
        loose = [ending for run in single for ending in run.endings] + list(unnamed)
        together = _run(sorted(loose, key=lambda ending: ending[1].at))
        if together.is_pattern(now) and (cause := _cause(together, is_one_client=False)):
            found[cause].append(together)
    return [finding for cause, runs in found.items() for finding in _findings(cause, runs)]


def _cause(run: _Run, *, is_one_client: bool) -> ChurnCause | None:
    """Return the cause, from who closes, how long they live and how many end at once."""
    ended = [each for _key, each in run.endings]
    life = median(each.lifetime_seconds for each in ended)
    alike = [each for each in ended if _is_near(each.lifetime_seconds, life)]
    # Of some endings nobody knows whose they were: the others decide.
    told = sum(each.closed_by is not ClosedBy.UNKNOWN for each in ended)
    by_broker = sum(each.closed_by is ClosedBy.BROKER for each in alike)
    if by_broker and by_broker >= MOST * told and len(alike) >= MOST * len(ended):
        return BROKER_IDLE
    if life <= SHORT_LIFE_SECONDS and _is_per_request(run, ended):
        return PER_REQUEST
    if len(alike) < MOST * len(ended):
        return None
    at_once = len(ended) / len(run.moments)
    small = sum(_is_refresh(each) for each in alike)
    if small < MOST * len(ended):
        return PER_REQUEST if life <= SHORT_LIFE_SECONDS and at_once > 1 else None
    return METADATA if is_one_client and at_once <= 1 / MOST else UNCLEAR


def _is_per_request(run: _Run, ended: Sequence[ClosedConnection]) -> bool:
    """Whether most lived between two polls, or each in a process or with a client.id of its own."""
    if sum(each.tracked is None for each in ended) >= MOST * len(ended):
        return True
    ids = {key.client_id for key, _ended in run.endings if key.client_id}
    owners = {each.tracked.owner.key for each in ended if each.tracked is not None}
    return max(len(ids), len(owners)) >= max(LEAST_MOMENTS, MOST * len(run.moments))


def _is_refresh(ended: ClosedConnection) -> bool:
    """Whether nothing but a greeting and a metadata request can have gone over it."""
    sent = ended.info.data_segments_out if ended.info is not None else None
    return sent is not None and sent <= REFRESH_SEGMENTS


def _is_near(life: float, usual: float) -> bool:
    return abs(life - usual) <= max(POLL_SECONDS, SAME_LIFE * usual)


def _findings(cause: ChurnCause, runs: Sequence[_Run]) -> list[Finding]:
    """Make a finding for each client, or one for all where there are many."""
    if len(runs) > MOST_NAMED:
        return [_finding(cause, [e for run in runs for e in run.endings], runs)]
    return [_finding(cause, run.endings, [run]) for run in runs]


def _finding(cause: ChurnCause, endings: Sequence[Ending], runs: Sequence[_Run]) -> Finding:
    key = endings[-1][0]
    ids = {key.client_id for key, _ended in endings}
    lone = key.client_id if len(ids) == 1 else ""
    labels = {
        "client_id": lone,
        "client_kind": key.client_kind,
        "process": key.process,
        "cause": cause.name,
    }
    who = repr(lone) if lone else key.process or "unknown process"
    if len(runs) > 1:
        who = f"{len(runs)} clients in {who}"
    life = median(ended.lifetime_seconds for _key, ended in endings)
    period = mean(run.period for run in runs)
    text = (
        f"{who}: {len(endings)} connections closed, {'each ' if len(runs) > 1 else ''}"
        f"one every {duration(period)}: {cause.text.format(life=_life_text(life))}."
    )
    return _finding_of(cause, labels, text, endings)


def _finding_of(
    cause: ChurnCause, labels: Mapping[str, str], text: str, endings: Sequence[Ending]
) -> Finding:
    return finding_of_alert(
        "KafkaClientConnectionChurn",
        labels,
        text,
        float(len(endings)),
        remedy=f"{cause.remedy[0].upper()}{cause.remedy[1:]}",
    )


def _life_text(seconds: float) -> str:
    """Write how long connections live; below a tenth of a second it was not measured exactly."""
    return duration(max(seconds, LEAST_LIFE_SECONDS))
