"""From the plan of a fleet to its pods' lives: restarts, agents, and what their clients do."""

from __future__ import annotations

__all__ = ["lives_of"]

from random import Random
from typing import TYPE_CHECKING, NamedTuple

from fleet_simulator.behaviours import behave
from fleet_simulator.diary import Diary
from fleet_simulator.events import HOUR_MS, MINUTE_MS, Boot, Pod

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleet_simulator.events import Service
    from fleet_simulator.plan import Fleet

# How often a service is deployed anew in a day: its pods restart one after the other.
_DEPLOYS_A_DAY = 0.3
_ROLLING_STEP_MS = 45_000
_NODES = 40
# Of the services with a sin so many are fixed from one simulated week to the next.
_FIXED_A_WEEK = 0.3
_GOOD = frozenset({"producer", "consumer", "streams"})
# A pod needs so long to end, and its successor to begin.
_ENDING_MS = 400
_STARTING_MS = 2500


class AgentFaults(NamedTuple):
    """How often an agent itself fails, as shares of the pods."""

    restarts: float = 0.0
    clock_steps: float = 0.0


_SOUND = AgentFaults()


def lives_of(
    fleet: Fleet, service: Service, place: int, week: int, faults: AgentFaults = _SOUND
) -> Iterator[Pod]:
    """Yield the pods that one place of a service has in a week, one after the other."""
    order = fleet.order
    window = order.window(week)
    service = _as_of(fleet, service, week)
    random = Random(f"{order.seed}/{week}/{service.first_agent + place}")
    outages = tuple(
        (outage.broker, outage.at)
        for outage in fleet.outages
        if outage.cluster == service.cluster.name and window[0] <= outage.at < window[1]
    )
    # Those that run already began some time before the agents were rolled out.
    begin = window[0] - random.randrange(HOUR_MS, 72 * HOUR_MS)
    for end in (*_restarts(fleet, service, place, week), None):
        pod = _pod(service, random, begin, end, window, faults)
        diary = Diary(pod, random, outages)
        behave(diary, begin, end if end is not None else window[1] + 48 * HOUR_MS, window)
        yield pod
        if end is not None:
            begin = end + random.randrange(_STARTING_MS, 2 * _STARTING_MS)


def _as_of(fleet: Fleet, service: Service, week: int) -> Service:
    """Return the service as it is in this week: some get better."""
    random = Random(f"{fleet.order.seed}/fixes/{service.number}")
    for _ in range(week):
        if service.behaviour not in _GOOD and random.random() < _FIXED_A_WEEK:
            newest = {"java": "4.4.0", "librdkafka": "2.16.0"}.get(service.library, service.version)
            service = service._replace(behaviour="producer", version=newest)
    return service


def _restarts(fleet: Fleet, service: Service, place: int, week: int) -> list[int]:
    """Return when this place's pods end: deployments, and storms in which all end at once."""
    order = fleet.order
    begin, end = order.window(week)
    random = Random(f"{order.seed}/{week}/deploys/{service.number}")
    times = []
    for day in range(begin, end, 24 * HOUR_MS):
        if random.random() < _DEPLOYS_A_DAY:
            at = day + random.randrange(24 * HOUR_MS) + place * _ROLLING_STEP_MS
            times.append(at + random.randrange(20_000))
        if service.behaviour == "storm":
            at = day + random.randrange(30 * MINUTE_MS, 60 * MINUTE_MS)
            times += [at + turn * 7 * MINUTE_MS + 37 * place for turn in range(4)]
    times.sort()
    kept: list[int] = []
    for at in times:
        # A pod that ended before it was up would have no life to write of.
        if begin + MINUTE_MS < at < end - MINUTE_MS and at - (kept or [0])[-1] > 2 * MINUTE_MS:
            kept.append(at)
    return kept


def _pod(
    service: Service,
    random: Random,
    begin: int,
    end: int | None,
    window: tuple[int, int],
    faults: AgentFaults,
) -> Pod:
    uid = _hex(random, 32)
    since = max(begin - 300, window[0])
    until = window[1] if end is None else min(end + _ENDING_MS, window[1])
    return Pod(
        agent_id=f"{uid[:8]}-{uid[8:12]}-{uid[12:16]}-{uid[16:20]}-{uid[20:]}",
        name=f"{service.name}-{_hex(random, 9)}-{_hex(random, 5)}",
        node=f"node-{random.randrange(_NODES):02d}",
        service=service,
        boots=tuple(_boots(random, since, until, until < window[1], faults)),
    )


def _boots(
    random: Random, since: int, until: int, final: bool, faults: AgentFaults
) -> Iterator[Boot]:
    """Yield the runs of an agent: one, unless it fails."""
    lasts = until - since
    if lasts > 30 * MINUTE_MS and random.random() < faults.restarts:
        ends = since + random.randrange(10 * MINUTE_MS, lasts - 10 * MINUTE_MS)
        killed = random.random() < 0.5
        # Of what a killed agent saw since its last record nobody ever hears.
        seen = ends // MINUTE_MS * MINUTE_MS if killed else ends
        yield Boot(_hex(random, 32), since, seen, not killed)
        since = ends + random.randrange(1000, 20_000)
    elif lasts > 30 * MINUTE_MS and random.random() < faults.clock_steps:
        # The clock goes back: a new boot, in which some minutes come a second time.
        stepped = since + random.randrange(10 * MINUTE_MS, lasts - 10 * MINUTE_MS)
        yield Boot(_hex(random, 32), since, stepped, final=True)
        back = -random.randrange(1000, 8 * MINUTE_MS)
        yield Boot(_hex(random, 32), stepped, until, final, back)
        return
    yield Boot(_hex(random, 32), since, until, final)


def _hex(random: Random, digits: int) -> str:
    return f"{random.getrandbits(4 * digits):0{digits}x}"
