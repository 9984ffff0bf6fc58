"""An engine with a journal on clocks of the test's own, and what holds of every batch."""

from __future__ import annotations

from dataclasses import replace

import jsonschema

from exporter.config.settings import Settings
from exporter.engine.engine import Engine
from exporter.snapshot import BrokerLimits
from exporter.totals.batches import Journal
from exporter.totals.journal_values import AgentFigures, Place
from journal_schema import schema
from tests.unit.sockets import JVM, figures, kernel, reading

SCHEMA = schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
COUNTERS = {
    name
    for kind in ("agent", "connections", "finding")
    for name, value in SCHEMA["$defs"][kind]["properties"].items()
    if value.get("x-is") == "counter"
}
LABELS = dict.fromkeys(("cluster", "kafka_cluster", "namespace", "service", "pod", "node"))
# Eleven in the morning of some day.
ELEVEN = 1_760_007_600.0


class Bench:
    """What an agent does at each poll, without an agent."""

    def __init__(self, *, most_series=100, interval=60.0, wall=ELEVEN, settings=None):
        boots = iter(f"{number:032x}" for number in range(1, 1000))
        self.journal = Journal(
            Place(agent_id="a", agent_version="1", labels=LABELS),
            interval=interval,
            most_series=most_series,
            limits=BrokerLimits(1000, None),
            new_boot_id=lambda: next(boots),
        )
        self.engine = Engine(settings or Settings(), journal=self.journal.totals)
        self.now = 5000.0
        self.wall = wall
        self.figures = AgentFigures()
        self.batches = []

    def poll(self, *sockets, seconds=1.0, step=0.0, owners=None, closed=()):
        """Let time go by, the wall clock leap, and look at the sockets."""
        self.now += seconds
        self.wall += seconds + step
        self.batches += self.journal.turn(self.now, self.wall, self.figures, self.engine.held)
        owners = {each.cookie: JVM for each in sockets} if owners is None else owners
        changes = self.engine.poll(kernel(self.now, *sockets, closed=closed), owners).changes
        gone = dict.fromkeys((tracked.cookie for tracked in changes.vanished), False)
        self.engine.settle_vanished(gone, self.now, events_complete=True)
        self.figures = self.figures._replace(polls=self.figures.polls + 1)

    def finish(self, seconds=0.0):
        self.now += seconds
        self.wall += seconds
        self.batches += self.journal.finish(self.now, self.figures, self.engine.held)

    def records(self, kind="connections"):
        return [
            record for batch in self.batches for record in batch.records if record["kind"] == kind
        ]

    def latest(self, kind="connections"):
        """The last record of each series."""
        return {(each["boot_id"], each.get("series")): each for each in self.records(kind)}

    def total(self, name, **wanted):
        return sum(
            record[name] or 0
            for record in self.latest().values()
            if wanted.items() <= record.items()
        )


def socket(cookie=1, at=0.0, out=50, into=70, **changes):
    return reading(cookie, at, info=figures(out, into), **changes)


def owned(name):
    return replace(JVM, key=f"pid:{name}", name=name)


def check(batches, interval_ms=60_000):
    """Hold batches against the description and the rules of docs/journal.md."""
    last = {}
    moments = {}
    sequence = {}
    for batch in batches:
        assert [each["index"] for each in batch.records] == list(range(len(batch.records)))
        assert [each["kind"] for each in batch.records].count("agent") == 1
        assert batch.records[0]["kind"] == "agent"
        boot = batch.records[0]["boot_id"]
        assert batch.at_ms > moments.get(boot, 0)
        assert batch.records[0]["seq"] == sequence.get(boot, 0) + 1
        moments[boot], sequence[boot] = batch.at_ms, batch.records[0]["seq"]
        assert batch.final or batch.at_ms % interval_ms == 0
        for record in batch.records:
            VALIDATOR.validate(record)
            assert record["records"] == len(batch.records)
            assert record["at_ms"] == batch.at_ms > record["since_ms"]
            assert not any(isinstance(value, float) for value in record.values())
            key = (boot, record.get("series"))
            before = last.get(key, {})
            for name in COUNTERS & record.keys():
                assert_grown(before.get(name), record[name], name)
            if before:
                dimensions = before.keys() - COUNTERS
                same = {n for n in dimensions if is_dimension(record["kind"], n)}
                assert {n: before[n] for n in same} == {n: record[n] for n in same}
            last[key] = record


def is_dimension(kind, name):
    properties = {
        **SCHEMA["$defs"]["envelope"]["properties"],
        **SCHEMA["$defs"][kind]["properties"],
    }
    return properties[name].get("x-is") in ("dimension", "identity")


def assert_grown(before, after, name):
    if isinstance(after, list):
        assert all(a >= b for a, b in zip(after, before or [0] * len(after), strict=True)), name
    elif after is not None:
        assert after >= (before or 0), name
    else:
        assert before is None, name
