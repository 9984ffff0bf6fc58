"""What can befall journal lines on their way: doubled, late, lost, mangled, too new, too old."""

from __future__ import annotations

__all__ = ["FAULTS", "Faults", "Mangler", "parse_faults"]

import re
from dataclasses import dataclass, fields
from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from random import Random

# A late line comes up to so many lines late: for most agents that is several hours.
_LATEST = 5000
# What an agent wrote before these fields were added.
_YOUNGER_FIELDS = re.compile(r'"(?:retransmits|instances|node)":(?:"[^"]*"|null|\d+),')


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Shares between 0 and 1: the first five of the lines, the others of the agents."""

    duplicates: float = 0.0
    disorder: float = 0.0
    lost: float = 0.0
    garbage: float = 0.0
    """Lines that do not parse, or hold what no agent writes; beside the good ones."""
    newer: float = 0.0
    """Lines of a schema version to come; beside the good ones."""
    older: float = 0.0
    """Agents of a time when some fields did not exist."""
    restarts: float = 0.0
    """Agents that end on their way, half of them by kill -9."""
    clock_steps: float = 0.0
    """Agents whose wall clock goes back."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if not 0 <= getattr(self, field.name) <= 1:
                raise ValueError(f"{field.name} must be between 0 and 1")


FAULTS = tuple(field.name for field in fields(Faults))


def parse_faults(text: str) -> Faults:
    """Read `duplicates=0.05,lost=0.001`."""
    shares: dict[str, float] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, _, share = part.partition("=")
        if name not in FAULTS:
            raise ValueError(f"{name!r} is not one of {', '.join(FAULTS)}")
        try:
            shares[name] = float(share)
        except ValueError:
            raise ValueError(f"{name} needs a share such as 0.01, not {share!r}") from None
    return Faults(**shares)


class Mangler:
    """Lets faults happen to the lines of one place, and counts them."""

    def __init__(self, faults: Faults, random: Random) -> None:
        self.counts: dict[str, int] = {}
        self._faults = faults
        self._random = random
        self._boot_is_old: dict[str, bool] = {}

    def lines(self, batches: Iterable[list[str]]) -> Iterator[str]:
        """Yield what arrives, in the order in which it arrives."""
        late: list[tuple[int, int, str]] = []
        number = 0
        for batch in batches:
            for line in self._aged(batch):
                number += 1
                while late and late[0][0] <= number:
                    yield heappop(late)[2]
                for arrives, text in self._befallen(line):
                    if arrives:
                        heappush(late, (number + arrives, len(late), text))
                    else:
                        yield text
        while late:
            yield heappop(late)[2]

    def _befallen(self, line: str) -> Iterator[tuple[int, str]]:
        """Yield what becomes of a line, with how many lines later it arrives."""
        faults, chance = self._faults, self._random.random
        if chance() < faults.garbage:
            kind = self._random.choice(tuple(_GARBAGE))
            self._count(kind)
            yield 0, _GARBAGE[kind](line, self._random)
        if chance() < faults.newer:
            self._count("newer")
            yield 0, line.replace('"schema_version":1,', '"schema_version":2,', 1)
        if chance() < faults.duplicates:
            self._count("duplicates")
            yield self._random.randrange(_LATEST), line
        if chance() < faults.lost:
            self._count("lost")
        elif chance() < faults.disorder:
            self._count("disorder")
            yield self._random.randrange(1, _LATEST), line
        else:
            yield 0, line

    def _aged(self, batch: list[str]) -> list[str]:
        if not self._faults.older:
            return batch
        boot = batch[0].partition('"boot_id":')[2][:34]
        if boot not in self._boot_is_old:
            self._boot_is_old[boot] = self._random.random() < self._faults.older
        if not self._boot_is_old[boot]:
            return batch
        self._count("older", len(batch))
        return [_YOUNGER_FIELDS.sub("", line) for line in batch]

    def _count(self, what: str, by: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + by


def _cut(line: str, random: Random) -> str:
    """Cut a line off, as a full disk does; the number keeps texts apart."""
    return f"{line[: random.randrange(20, len(line) - 2)]}{random.getrandbits(32)}\n"


def _no_json(_line: str, random: Random) -> str:
    return f"Traceback (most recent call last) {random.getrandbits(64):x} <b>\u202e\n"


def _wrong_type(line: str, random: Random) -> str:
    return re.sub(r'"seq":\d+', f'"seq":"{random.getrandbits(64)}"', line, count=1)


def _too_great(line: str, random: Random) -> str:
    return re.sub(r'"at_ms":\d+', f'"at_ms":{10**20 + random.getrandbits(64)}', line, count=1)


def _no_agent(line: str, random: Random) -> str:
    return re.sub(r'"agent_id":"[^"]*",', f'"was":{random.getrandbits(64)},', line, count=1)


def _unknown_kind(line: str, random: Random) -> str:
    kind = f'"kind":"weather-{random.getrandbits(64)}"'
    return re.sub(r'"kind":"[a-z]+"', kind, line, count=1)


_GARBAGE: dict[str, Callable[[str, Random], str]] = {
    "cut": _cut,
    "no_json": _no_json,
    "wrong_type": _wrong_type,
    "too_great": _too_great,
    "no_agent": _no_agent,
    "unknown_kind": _unknown_kind,
}
