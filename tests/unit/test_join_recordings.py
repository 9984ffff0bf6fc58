"""The join over recordings of real clients and brokers, a security profile each.

`python -m tests.scenarios.join_runs` makes them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import pytest

from exporter.model import Library
from tests.scenarios.join_recording import (
    Recording,
    begun_late,
    judge_replay,
    replay,
    score_join,
    without_groups,
)
from tests.scenarios.join_verdicts import is_known_limit, share

FOLDER = Path(__file__).resolve().parents[1] / "golden" / "join"
# `hard_`: shuffled bootstrap servers, partitions on one broker, equal twins, a certificate each.
HARD = sorted(FOLDER.glob("hard_*.json.gz"))
RECORDINGS = [path for path in sorted(FOLDER.glob("*.json.gz")) if path not in HARD]

# Truth is told every four seconds; by then the agent has read a page some eight times.
SETTLED = 4

# These name no groups and no counts of connections, and a page's sender is unknown: what is left
# open by that stays unknown. The least share of the settled looks that is told all the same.
LEAST_TOLD = 0.13

# Seconds after the agent knows a client, and the share of its connections that is right by then.
SOON = 15
# Measured: 0.89. The rest is unknown, or may carry the name of a client that counts the same.
RIGHT_SOON = 0.85

# An agent that starts so much later has seen no connection open.
LATE = 10


def name_of(path):
    return path.name.partition(".")[0]


@pytest.mark.parametrize("path", RECORDINGS, ids=name_of)
def test_a_recording_without_groups_and_counts_is_right_or_unknown(path):
    scores = []
    for attributor, connections, truths in replay(Recording.load(path)):
        told = [truth for truth in truths if not is_known_limit(truth)]
        scores.append(score_join(attributor, connections, told))
    print(path.name, *(str(each).splitlines()[0] for each in scores), sep="\n  ")
    assert [wrong for each in scores for wrong in each.wrong] == []
    settled = scores[SETTLED - 1 :]
    told = sum(each.right + each.equal for each in settled)
    assert told >= LEAST_TOLD * (told + sum(each.unknown for each in settled)) > 0


def late(recording):
    return begun_late(recording, LATE)


@cache
def verdicts_of(path, seen_by=None):
    recording = Recording.load(path)
    return judge_replay(seen_by(recording) if seen_by else recording, (SOON,))


@pytest.mark.parametrize("seen_by", [None, late, without_groups])
@pytest.mark.parametrize("path", HARD, ids=name_of)
def test_no_connection_is_wrong_at_any_look(path, seen_by):
    verdicts = verdicts_of(path, seen_by)
    print(path.name, dict(verdicts.counts(SOON)))
    assert verdicts.looks
    assert [told.worst for told in verdicts.told.values() if told.wrong_looks] == []


def test_most_connections_are_right_soon():
    counts = sum((verdicts_of(path).counts(SOON) for path in HARD), Counter())
    print(dict(counts))
    assert share(counts) >= RIGHT_SOON


@pytest.mark.parametrize("path", HARD, ids=name_of)
def test_the_groups_of_a_recording_are_its_java_clients(path):
    groups, clients = defaultdict(set), defaultdict(set)
    for _, connections, truths in replay(Recording.load(path)):
        found = {(str(c.reading.local), str(c.reading.remote)): c for c in connections.values()}
        for truth in truths:
            tracked = found.get((truth.local, truth.remote))
            if tracked is not None and tracked.owner.library is Library.JAVA:
                groups[truth.client_id].add(tracked.group and tracked.group.key)
                clients[tracked.group and tracked.group.key].add(truth.client_id)
    assert None not in clients
    assert {len(each) for each in (*groups.values(), *clients.values())} <= {1}


def test_there_are_recordings():
    assert len(RECORDINGS) >= 8
    assert len(HARD) >= 8
