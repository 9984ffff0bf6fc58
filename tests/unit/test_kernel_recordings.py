"""Classes without clients' metrics, over recordings of real clients and brokers.

`python -m tests.scenarios.kernel_recording` makes them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.config.settings import ClientRule, ClientSettings, Settings
from exporter.model import ClientKind, ConnectionClass, Library, OwnerRung
from tests.scenarios.kernel_recording import Recording, replay

FOLDER = Path(__file__).resolve().parents[1] / "golden" / "kernel"
RECORDINGS = sorted(FOLDER.glob("*.json.gz"))
EARLY = [path for path in RECORDINGS if "late" not in path.name]

each_recording = pytest.mark.parametrize(
    "path", RECORDINGS, ids=lambda path: path.name.partition(".")[0]
)


def _as_container(owner):
    """What is known of an owner without a shared pid namespace: its cgroup."""
    return replace(
        owner, key=f"cgroup:{owner.key}", rung=OwnerRung.CGROUP, pid=None, started=None,
        library=Library.UNKNOWN,
    )  # fmt: skip


LEVELS = {
    "groups": {},
    "process": {"with_groups": False},
    "container": {"with_groups": False, "owner_of": _as_container},
}


def _answers(engine, truths):
    """Every connection of which its client told, with that."""
    told = {(truth.local, truth.remote): truth for truth in truths}
    for connection in engine.connections:
        truth = told.get((str(connection.local), str(connection.remote)))
        if truth is not None:
            yield connection, truth


@pytest.mark.parametrize("level", LEVELS)
@each_recording
def test_no_role_is_wrong_and_confident_at_any_look(path, level):
    for engine, truths in replay(Recording.load(path), **LEVELS[level]):
        for connection, truth in _answers(engine, truths):
            is_sure = connection.confidence in {"strong", "exact"}
            assert not is_sure or connection.role == truth.role, (truth, connection)


def _last(path, **options):
    *_, (engine, truths) = replay(Recording.load(path), **options)
    return engine, truths


def _shares(paths, **options):
    """The share of each role that is told in the end, among Java's; of data what is in use."""
    held, told = Counter(), Counter()
    for path in paths:
        engine, truths = _last(path, **options)
        for connection, truth in _answers(engine, truths):
            if connection.library == "librdkafka" or "librdkafka" in truth.name:
                continue
            tracked = engine.tracker.connections[connection.cookie]
            if truth.role == "data" and tracked.last_activity_at - tracked.opened_at < 10:
                continue
            held[truth.role] += 1
            told[truth.role] += connection.role == truth.role
    return {role: told[role] / held[role] for role in held}


def test_with_groups_nearly_all_is_told():
    shares = _shares(EARLY)
    assert shares["bootstrap"] >= 0.9, shares
    assert shares["coordinator"] >= 0.9, shares
    assert shares["data"] >= 0.95, shares


@pytest.mark.parametrize("path", EARLY, ids=lambda path: path.name.partition(".")[0])
def test_each_client_has_a_name_of_its_own_and_no_wrong_kind(path):
    engine, truths = _last(path)
    names = {}
    for connection, truth in _answers(engine, truths):
        if connection.library != "java":
            continue
        name = (connection.owner.key, connection.client_id)
        assert connection.client_id.startswith("#")
        assert names.setdefault(name, (truth.name, truth.instance)) == (truth.name, truth.instance)
        assert connection.client_kind in {truth.client_kind, ClientKind.UNKNOWN}
    assert len(set(names.values())) == len(names) > 6


OFF = Settings(clients=ClientSettings(rules=(ClientRule(connections_max_idle=0.0),)))


def test_what_was_superseded_is_a_zombie_at_once_where_idle_closing_is_off():
    path = FOLDER / "tls.json.gz"
    before, _ = _last(path)
    superseded = {
        connection.cookie
        for connection in before.connections
        if connection.role == "bootstrap" and connection.library == "java"
    }
    assert len(superseded) > 30
    after, _ = _last(path, settings=OFF)
    classes = {each.cookie: str(each.connection_class) for each in after.connections}
    assert {classes[cookie] for cookie in superseded} == {"zombie"}
    in_use = [each for each in after.connections if each.role in {"data", "coordinator"}]
    assert {str(each.connection_class) for each in in_use} == {"data", "coordinator"}


def test_a_client_is_expected_to_hold_one_connection_a_broker_and_its_coordinators():
    # Of processes that share a name the expected counts are sums.
    engine, truths = _last(
        FOLDER / "tls.json.gz", owner_of=lambda owner: replace(owner, name=str(owner.pid))
    )
    told = {(truth.local, truth.remote): truth for truth in truths}
    needed, held = Counter(), set()
    for connection in engine.connections:
        truth = told.get((str(connection.local), str(connection.remote)))
        if truth is None or truth.name not in {"busy-4.4.0-4", "group-4.4.0-4"}:
            continue
        pair = (connection.owner.name, connection.client_id, connection.broker)
        held.add(pair[:2])
        needed[pair] += truth.role != "bootstrap"
    expected = {
        (pair.process, pair.client_id, pair.broker): each.count
        for pair, each in engine.counts.expected.items()
    }
    assert len(held) == 2
    assert {pair: expected[pair] for pair in needed} == dict(needed)


def test_what_is_unknown_has_no_efficiency():
    engine, _ = _last(FOLDER / "tls_idle.json.gz")
    totals = engine.totals
    known = totals.known_seconds()
    nothing = {
        pair
        for pair, counts in engine.counts.by_class.items()
        if sum(counts.values()) == counts[ConnectionClass.UNKNOWN]
        and pair not in engine.counts.expected
    }
    always_unknown = nothing - known.keys()
    assert always_unknown
    assert all(totals.useful_seconds.get(pair, 0.0) == 0.0 for pair in always_unknown)


def test_there_are_recordings():
    assert len(RECORDINGS) >= 5
