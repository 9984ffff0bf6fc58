"""Roles from figures alone: what real clients show (measured), and what only looks like it."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle

import pytest

from exporter.core.activity import Activity
from exporter.core.signs import role_from_signs
from exporter.core.tracker import TrackedConnection
from exporter.model import Library, Role
from tests.unit.sockets import JVM, figures, reading

NOW = 10_000.0


def role(*activities, first=False, owner=JVM, info=None, opened=NOW - 60, last=None):
    """The role of a connection with this past; None where the figures prove none."""
    tracked = TrackedConnection(
        reading=reading(info=info or figures(500, 900)),
        owner=owner,
        opened_at=opened,
        age_is_exact=True,
        first_for_owner=first,
        last_activity_at=last if last is not None else NOW,
    )
    tracked.activities.extend(activities)
    sign = role_from_signs(tracked, NOW)
    return None if sign is None else sign.role


def rhythm(period, *figures, count=30):
    """Activities (bytes out and in, segments out and in) in turn, a period apart."""
    turns = cycle(figures)
    return [Activity(NOW - period * (count - n), *next(turns)) for n in range(count)]


def merged(*series):
    return sorted(activity for one in series for activity in one)


BEAT = (87, 16, 1, 1)
COMMIT = (203, 64, 1, 1)


@pytest.mark.parametrize(
    ("activities", "expected"),
    [
        pytest.param(rhythm(3.0, (86, 14, 1, 1)), Role.COORDINATOR, id="heartbeats, Java 2.1"),
        pytest.param(rhythm(3.0, BEAT), Role.COORDINATOR, id="heartbeats, Java 3.9 and 4.4"),
        pytest.param(rhythm(3.0, (79, 14, 1, 1)), Role.COORDINATOR, id="heartbeats, librdkafka"),
        pytest.param(
            merged(rhythm(3.0, BEAT, count=20), rhythm(5.0, COMMIT, count=12)),
            Role.COORDINATOR,
            id="heartbeats and auto-commits",
        ),
        pytest.param(
            merged(rhythm(5.0, (62, 49, 1, 1), count=20), rhythm(5.1, (180, 75, 1, 1), count=20)),
            Role.COORDINATOR,
            id="KIP-848 heartbeats and auto-commits",
        ),
        pytest.param(rhythm(1.0, (118, 42, 2, 2)), Role.DATA, id="idle fetch, Java 3.9"),
        pytest.param(rhythm(1.0, (114, 44, 2, 2)), Role.DATA, id="idle fetch, Java 2.1"),
        pytest.param(rhythm(1.0, (184, 290, 2, 6)), Role.DATA, id="records, Java"),
        pytest.param(rhythm(1.0, (262, 382, 2, 6)), Role.DATA, id="records, librdkafka"),
        pytest.param(rhythm(1.0, (200, 900_000, 20, 40)), Role.DATA, id="bulk fetch"),
        pytest.param(rhythm(1.0, (900_000, 200, 40, 5)), Role.DATA, id="bulk produce"),
    ],
)
def test_what_real_clients_show(activities, expected):
    assert role(*activities) is expected


@pytest.mark.parametrize(
    "activities",
    [
        pytest.param([], id="nothing"),
        pytest.param(rhythm(3.0, BEAT, count=7), id="too few heartbeats"),
        pytest.param(rhythm(1.0, BEAT), id="heartbeats' size at another period"),
        pytest.param(
            rhythm(1.5, (140, 40, 1, 1), (95, 16, 1, 1)),
            id="AddPartitionsToTxn and EndTxn each 3 s, parted by a poll",
        ),
        pytest.param(rhythm(3.0, (90, 16, 1, 1), (97, 16, 1, 1)), id="answers alike, requests not"),
        pytest.param(
            rhythm(3.0, (120, 54, 1, 1)),
            id="a produce each 3 s, topic of three letters: a heartbeat's answer under TLS",
        ),
        pytest.param(
            rhythm(1.0, (150, 42, 1, 1)), id="a commit each second, an idle fetch's size under TLS"
        ),
        pytest.param(rhythm(1.0, (201, 88, 1, 1)), id="a small produce each second"),
        pytest.param(rhythm(5.0, (242, 124, 1, 2)), id="two requests in one segment"),
        pytest.param(rhythm(1.0, (6_000, 4_000, 1, 1)), id="300 partitions committed each second"),
        pytest.param(
            rhythm(30.0, (400, 120_000, 6, 90)), id="a lag exporter that asks each half minute"
        ),
        pytest.param(rhythm(1.0, (300, 9_000, 1, 7)), id="large metadata in full segments"),
        pytest.param(rhythm(1.0, (262, 226, 2, 2)), id="librdkafka's idle fetch names its topics"),
    ],
)
def test_what_fits_more_than_one_role_is_not_known(activities):
    assert role(*activities) is None


QUIET = {"opened": NOW - 60, "last": NOW - 59}


def test_the_first_connection_of_a_jvm_that_fell_silent_is_bootstrap():
    assert role(first=True, **QUIET) is Role.BOOTSTRAP


@pytest.mark.parametrize(
    ("first", "changes"),
    [
        pytest.param(False, QUIET, id="not the first"),
        pytest.param(True, {"opened": NOW - 60, "last": NOW - 1}, id="still in use"),
        pytest.param(True, {"opened": NOW - 4, "last": NOW - 3}, id="not silent for long"),
        pytest.param(
            True,
            QUIET | {"owner": replace(JVM, library=Library.LIBRDKAFKA)},
            id="librdkafka closes its own",
        ),
        pytest.param(True, QUIET | {"info": figures(0, 0)}, id="never got an answer"),
        pytest.param(
            True, QUIET | {"info": figures(900, 900, data_segments_out=40)}, id="too much went"
        ),
    ],
)
def test_what_may_be_something_else_is_not_called_bootstrap(first, changes):
    assert role(first=first, **changes) is None
