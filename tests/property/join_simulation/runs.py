"""One run: a host, an observer and the join, and what the join said at every read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from exporter.join.attribution import Attributor
from exporter.model import Confidence
from tests.property.join_simulation.accidents import plan_accidents
from tests.property.join_simulation.host import Host
from tests.property.join_simulation.laws import check_laws
from tests.property.join_simulation.observer import READ_SECONDS, Observer
from tests.property.join_simulation.population import populate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from exporter.model import Attribution
    from tests.property.join_simulation.wires import Wire

# A rate is taken so long after the agent first read of a client.
MILESTONES = (15.0, 30.0, 60.0)

# A connection younger than two reads is not yet to be told.
YOUNG_SECONDS = 4.5


class Verdict(StrEnum):
    RIGHT = "right"
    EQUALS = "right up to equals"
    UNKNOWN = "unknown"
    WRONG = "wrong"
    CONFIDENT = "wrong and confident"


@dataclass(frozen=True)
class Wrong:
    """A wrong answer: the first of its kind in a run."""

    seed: int
    at: float
    story: str
    confident: bool


@dataclass
class Result:
    """What came of a run."""

    seed: int
    traits: dict[str, bool]
    wrongs: list[Wrong] = field(default_factory=list)
    rates: dict[float, Counter[Verdict]] = field(
        default_factory=lambda: {each: Counter() for each in MILESTONES}
    )
    reads: int = 0
    laws_checked: int = 0
    sockets: int = 0


class Join(Protocol):
    """What the simulation asks of the join."""

    @property
    def attributions(self) -> Mapping[int, Attribution]: ...


def simulate(
    profile: str,
    seed: int,
    traits: dict[str, bool] | None = None,
    *,
    join: Callable[[], Attributor] = Attributor,
    tell: Callable[[str], None] | None = None,
    only: int | None = None,
    turns: int | None = None,
    stop_at_wrong: bool = False,
) -> Result:
    """Run one world to its end."""
    host = Host(profile, seed, traits)
    populate(host)
    plan_accidents(host)
    observer = Observer(host)
    attributor = join()
    result = Result(seed, host.traits)
    known_since: dict[object, float] = {}
    scored: dict[tuple[object, float], bool] = {}
    begin, drawn = observer.begins_at, host.chance.randint(31, 45)
    if tell:
        tell(f"{profile} seed {seed}: {', '.join(name for name, on in host.traits.items() if on)}")
    for number in range(turns or drawn):
        at = begin + READ_SECONDS * number + host.chance.uniform(0.0, 0.3)
        reads, gone = observer.turn(at)
        result.laws_checked += check_laws(host, host.now)
        attributor.forget(gone)
        for read in reads:
            for client in read.sample.reading.clients if read.process.victim is None else ():
                known_since.setdefault((read.process.source, client.client_id, client.instance), at)
            attributor.update(read.sample, observer.connections, host.addresses_of)
            result.reads += 1
            if tell and read.about:
                tell(f"{at:.2f} {read.process.source}: {read.about}")
            _find_wrongs(result, observer, attributor, at)
            if stop_at_wrong and result.wrongs:
                return result
        _count(result, observer, attributor, at, known_since, scored)
        if tell:
            for line in _lines(observer, attributor, only):
                tell(f"{at:.2f}   {line}")
    result.sockets = len(observer.wires)
    return result


def _find_wrongs(result: Result, observer: Observer, attributor: Attributor, at: float) -> None:
    for cookie, claim in attributor.attributions.items():
        wire = observer.wires.get(cookie)
        if wire is None:
            continue
        verdict = judge(observer, wire, claim)
        if verdict in (Verdict.WRONG, Verdict.CONFIDENT):
            story = (
                f"socket {cookie} to {wire.remote} is {name_of(wire)}; stated at {at:.1f} s: "
                f"{claim.client.kind} {claim.client.client_id!r} node {claim.node.node_id} of "
                f"{claim.client.source} ({claim.confidence}, equals {list(claim.equals)}): {claim.evidence}"
            )
            confident = verdict is Verdict.CONFIDENT
            same = (
                known
                for known in result.wrongs
                if known.story.split(";")[0] == story.split(";", maxsplit=1)[0]
            )
            if next(same, None) is None:
                result.wrongs.append(Wrong(result.seed, at, story, confident))


def judge(observer: Observer, wire: Wire, claim: Attribution | None) -> Verdict:
    """Hold a claim against the truth; a client that no page tells of may not be claimed at all."""
    if claim is None:
        return Verdict.UNKNOWN
    client = wire.node.client
    process = observer.host.process_of(client)
    if process.victim is not None:
        # What an impostor says of its own sockets is its own affair.
        return Verdict.UNKNOWN
    stated = claim.client
    is_client = not client.hidden and (
        (stated.source, stated.kind, stated.client_id, stated.instance)
        == (process.source, client.kind, client.client_id, client.instance)
    )
    if is_client and claim.node.node_id == wire.node.node_id:
        return Verdict.EQUALS if claim.equals else Verdict.RIGHT
    if not client.hidden and name_of(wire) in claim.equals:
        return Verdict.EQUALS
    return (
        Verdict.CONFIDENT
        if claim.confidence in (Confidence.EXACT, Confidence.STRONG)
        else Verdict.WRONG
    )


def name_of(wire: Wire) -> str:
    """Name the truth as `Attribution.equals` names nodes."""
    client = wire.node.client
    return f"{client.kind} {client.client_id!r} node {wire.node.node_id}"


def _count(
    result: Result,
    observer: Observer,
    attributor: Attributor,
    at: float,
    known_since: Mapping[object, float],
    scored: dict[tuple[object, float], bool],
) -> None:
    """Rate every connection of a client once, when the client has been known for so long."""
    for client, (process, _plan) in observer.host.plans.items():
        key = (process.source, client.client_id, client.instance)
        since = known_since.get(key)
        if since is None or not process.is_here or client.hidden:
            continue
        for milestone in MILESTONES:
            if at - since < milestone or (client, milestone) in scored:
                continue
            scored[client, milestone] = True
            for wire in client.wires:
                if wire.cookie in observer.connections and at - wire.opened_at > YOUNG_SECONDS:
                    claim = attributor.attributions.get(wire.cookie)
                    result.rates[milestone][judge(observer, wire, claim)] += 1


def _lines(observer: Observer, attributor: Attributor, only: int | None) -> list[str]:
    """Tell of every socket: the kernel's counts, its true node and the last row of it, the answer."""
    lines = []
    for cookie, tracked in sorted(observer.connections.items()):
        if only not in (None, cookie):
            continue
        wire, reading = observer.wires[cookie], tracked.reading
        row, claim = wire.node.reading, attributor.attributions.get(cookie)
        told = "no row"
        if row is not None:
            told = f"row {row.outgoing_bytes}/{row.incoming_bytes} {row.requests}/{row.responses}"
        stated = "-"
        if claim is not None:
            equals = f" = {'; '.join(claim.equals)}" if claim.equals else ""
            stated = f"{claim.client.client_id} {claim.node.node_id} {claim.confidence}{equals}"
        lines.append(
            f"{cookie} {wire.remote} {reading.outgoing_bytes}/{reading.incoming_bytes} "
            f"queues {reading.send_queue}/{reading.receive_queue} | {name_of(wire)} {told} "
            f"uncounted {wire.uncounted_out.last}/{wire.uncounted_in.last} opened {wire.opened_at:.2f}"
            f"{' resumed' if wire.resumed else ''} | {judge(observer, wire, claim)}: {stated}"
        )
    return lines
