"""The join over recordings of real clients and brokers, a security profile each.

`python -m tests.scenarios.join_recording` makes them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.join_recording import Recording, replay, score_join

FOLDER = Path(__file__).resolve().parents[1] / "golden" / "join"
RECORDINGS = sorted(FOLDER.glob("*.json.gz"))

# Truth is told every four seconds; by then the agent has read a page some eight times.
SETTLED = 4

# Sockets given to their equals: clients with names of one length that did the same, and under
# SCRAM those whose nonces' lengths make up for a byte of difference.
MOST_EQUALS = 4


def _is_known_limit(truth):
    """librdkafka's admin client calls itself a producer: its role is not the join's to tell."""
    return truth.client_id == "operator-librdkafka"


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.partition(".")[0])
def test_every_settled_connection_is_right(path):
    scores = []
    for attributor, connections, truths in replay(Recording.load(path)):
        told = [truth for truth in truths if not _is_known_limit(truth)]
        scores.append(score_join(attributor, connections, told))
    print(path.name, *(str(each).splitlines()[0] for each in scores), sep="\n  ")
    assert [wrong for each in scores for wrong in each.wrong] == []
    settled = scores[SETTLED - 1 :]
    assert settled
    assert [0] * len(settled) == [each.unknown for each in settled]
    most = MOST_EQUALS if "equal" not in path.name else MOST_EQUALS * 4
    assert max(each.equal for each in settled) <= most


def test_there_are_recordings():
    assert len(RECORDINGS) >= 8
