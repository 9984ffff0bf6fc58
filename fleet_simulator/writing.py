"""Writes a fleet's journals and the truth beside them, several processes at a time.

Each place of a deployment has random numbers of its own, so the files do not depend on how many
processes write them, nor on their order.
"""

from __future__ import annotations

__all__ = ["Output", "write_fleet"]

import gzip
import json
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from fleet_simulator.faults import Faults, Mangler
from fleet_simulator.lines import batches_of
from fleet_simulator.lives import AgentFaults, lives_of
from fleet_simulator.plan import Fleet, Order, plan_fleet
from fleet_simulator.truth import Truth
from fleet_simulator.truth_rows import merged, write_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import BinaryIO

    from fleet_simulator.events import Service
    from fleet_simulator.truth_rows import Tables

_WRITE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where the files go, and how."""

    folder: Path
    shards: int = 0
    """So many files in all; 0 is a folder for each place."""
    compress: bool = False
    truth: bool = True
    processes: int = 1


class _Part(NamedTuple):
    """What one process is to write: a file, and the places whose lines go there."""

    path: Path
    places: range


class _Done(NamedTuple):
    lines: int
    size: int
    faults: Counter[str]
    tables: Tables


def write_fleet(
    order: Order, faults: Faults, output: Output, report: Callable[[int, int, int, int], None]
) -> dict[str, object]:
    """Write everything; return the summary that is also in `truth/summary.json`.

    `report` is called after each file: files done, files in all, lines and bytes so far.
    """
    begun = time.monotonic()
    parts = list(_parts(order, output))
    lines = size = 0
    happened: Counter[str] = Counter()
    tables: Tables = {}
    spawn = get_context("spawn")
    with ProcessPoolExecutor(output.processes, spawn, _plan, (order,)) as pool:
        futures = [pool.submit(_write, faults, output, part) for part in parts]
        for number, future in enumerate(as_completed(futures), 1):
            done = future.result()
            lines += done.lines
            size += done.size
            happened += done.faults
            merged(tables, done.tables)
            report(number, len(parts), lines, size)
    summary: dict[str, object] = {
        "order": asdict(order),
        "faults": asdict(faults),
        "lines": lines,
        "bytes": size,
        "happened": dict(sorted(happened.items())),
    }
    truth = output.folder / "truth"
    truth.mkdir(parents=True, exist_ok=True)
    if output.truth:
        write_rows(truth, tables)
    (truth / "summary.json").write_text(json.dumps(summary, indent=1) + "\n", "utf-8")
    return summary | {"seconds": time.monotonic() - begun}


def _parts(order: Order, output: Output) -> Iterator[_Part]:
    end = ".jsonl.gz" if output.compress else ".jsonl"
    folder = output.folder / "journal"
    if not output.shards:
        for place in range(order.agents):
            path = folder / f"agent-{place:05d}" / f"journal{end}"
            yield _Part(path, range(place, place + 1))
        return
    for shard in range(output.shards):
        low = shard * order.agents // output.shards
        high = (shard + 1) * order.agents // output.shards
        yield _Part(folder / f"shard-{shard:04d}{end}", range(low, high))


_planned: list[Fleet] = []
"""The fleet, in each writing process: planned anew for each file it would take longer than they."""


def _plan(order: Order) -> None:
    _planned[:] = [plan_fleet(order)]


def _write(faults: Faults, output: Output, part: _Part) -> _Done:
    (fleet,) = _planned
    part.path.parent.mkdir(parents=True, exist_ok=True)
    truth = Truth() if output.truth else None
    happened: Counter[str] = Counter()
    lines = size = 0
    with _opened(part.path, output.compress) as file:
        kept: list[str] = []
        length = 0
        for line in _lines(fleet, faults, part.places, truth, happened):
            kept.append(line)
            length += len(line)
            if length > _WRITE_BYTES:
                lines += len(kept)
                size += file.write("".join(kept).encode("utf-8"))
                kept.clear()
                length = 0
        lines += len(kept)
        size += file.write("".join(kept).encode("utf-8"))
    return _Done(lines, size, happened, truth.tables() if truth else {})


def _opened(path: Path, compress: bool) -> BinaryIO:
    if not compress:
        return path.open("wb", buffering=0)
    # No name and no time in the header: equal journals are equal files.
    return gzip.GzipFile("", "wb", 1, path.open("wb"), 0)  # type: ignore[return-value]


def _lines(
    fleet: Fleet,
    faults: Faults,
    places: range,
    truth: Truth | None,
    happened: Counter[str],
) -> Iterator[str]:
    has_line_faults = faults != Faults(restarts=faults.restarts, clock_steps=faults.clock_steps)
    for place in places:
        service = _service_of(fleet, place)
        batches = _batches(fleet, service, place, faults, truth)
        if not has_line_faults:
            for batch in batches:
                yield from batch
            continue
        random = Random(f"{fleet.order.seed}/faults/{place}")
        mangler = Mangler(faults, random)
        yield from mangler.lines(batches)
        happened.update(mangler.counts)


def _batches(
    fleet: Fleet, service: Service, place: int, faults: Faults, truth: Truth | None
) -> Iterator[list[str]]:
    of_agents = AgentFaults(faults.restarts, faults.clock_steps)
    for week in range(fleet.order.weeks):
        for pod in lives_of(fleet, service, place - service.first_agent, week, of_agents):
            for boot in pod.boots:
                yield from batches_of(pod, boot)
            if truth is not None:
                truth.add(pod)


def _service_of(fleet: Fleet, place: int) -> Service:
    return next(
        service
        for service in fleet.services
        if service.first_agent <= place < service.first_agent + service.pods
    )
