"""Unused since its opening: a fact of the kernel's counters, said only where it is certain."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.config.settings import Settings
from exporter.connections.tracker import Tracker
from exporter.connections.unused import OPENING_SECONDS, unused_since_opening, was_used
from exporter.engine.engine import Engine
from exporter.model import Library, TcpState
from tests.unit.sockets import JVM, figures, kernel, owned, reading

NOW = 160.0


def silent(age_ms, *, segments=3, **changes):
    """A socket over which nothing has gone for so many milliseconds."""
    info = figures(
        80,
        900,
        data_segments_out=segments,
        data_segments_in=segments,
        last_data_sent_ms=age_ms,
        last_data_received_ms=age_ms,
        last_ack_received_ms=age_ms,
    )
    return reading(1, info=info, **changes)


def opened(socket, *, at=100.0):
    """A connection that was opened between two polls."""
    tracker = Tracker()
    tracker.update(kernel(at - 1.0), {})
    tracker.update(kernel(at, socket), owned(socket))
    [tracked] = tracker.connections.values()
    return tracker, tracked


def test_what_carried_nothing_since_its_opening_is_unused_for_as_long_as_it_is_idle():
    _tracker, tracked = opened(silent(300))
    assert unused_since_opening(tracked, NOW) == pytest.approx(60.3)


def test_a_young_connection_is_not_unused_yet():
    _tracker, tracked = opened(silent(0))
    assert unused_since_opening(tracked, 100.0 + OPENING_SECONDS - 0.1) is None
    assert unused_since_opening(tracked, 100.0 + OPENING_SECONDS + 0.1) is not None


@pytest.mark.parametrize(
    ("after", "used"),
    [
        pytest.param(OPENING_SECONDS - 1.0, False, id="within its opening"),
        pytest.param(OPENING_SECONDS + 1.0, True, id="after it"),
    ],
)
def test_bytes_count_once_the_opening_is_over(after, used):
    tracker, tracked = opened(silent(0))
    later = reading(
        1,
        at=100.0 + after,
        info=figures(130, 950, last_data_sent_ms=0, last_data_received_ms=0),
    )
    tracker.update(kernel(100.0 + after, later), owned(later))
    assert was_used(tracked) is used
    assert (unused_since_opening(tracked, NOW) is None) is used
    # It stays used, however long it is silent from then on.
    assert (unused_since_opening(tracked, NOW + 3600.0) is None) is used


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"tcp_state": TcpState.CLOSE_WAIT}, id="half closed"),
        pytest.param({"tcp_state": TcpState.SYN_SENT}, id="not established"),
    ],
)
def test_only_an_established_connection_is_unused(changes):
    _tracker, tracked = opened(silent(0, **changes))
    assert unused_since_opening(tracked, NOW) is None


def test_a_table_without_counters_proves_nothing():
    _tracker, tracked = opened(reading(1, info=None))
    assert unused_since_opening(tracked, NOW) is None


def test_a_ghost_is_a_ghost():
    _tracker, tracked = opened(silent(0))
    tracked.ghost = True
    assert unused_since_opening(tracked, NOW) is None


def before_the_agent(socket, owner=JVM, **changes):
    tracker = Tracker(started=changes.pop("started", 0.0))
    tracker.update(kernel(100.0, socket, **changes), {socket.cookie: owner})
    [tracked] = tracker.connections.values()
    return tracker, tracked


@pytest.mark.parametrize(
    ("segments", "idle"),
    [
        pytest.param(0, 120.0, id="nothing ever went out"),
        pytest.param(1, 120.0, id="the first request alone"),
        pytest.param(2, None, id="the second one may have come at any time"),
    ],
)
def test_of_a_connection_older_than_the_agent_only_the_counters_can_prove_it(segments, idle):
    _tracker, tracked = before_the_agent(silent(60_000, segments=segments))
    assert unused_since_opening(tracked, NOW) == idle


def test_that_nothing_went_since_the_agent_looks_is_no_proof():
    tracker, tracked = before_the_agent(silent(60_000))
    tracker.update(kernel(NOW, tracked.reading), owned(tracked.reading))
    assert not was_used(tracked)
    assert unused_since_opening(tracked, NOW + 3600.0) is None


# ---- what the keep-alive timer of a JVM's connection shows ----------------------------------------

HOURS_2 = 7_200_000


def of_jvm(*, gone_ms, silence_ms, alive=600.0, library=Library.JAVA, begins=HOURS_2):
    """A connection of a process that started so many seconds before the agent."""

    started = 10_000.0
    socket = replace(silent(silence_ms), keepalive_left_ms=HOURS_2 - gone_ms)
    owner = replace(JVM, started=started - alive, library=library)
    tracker = Tracker(started=started)
    told = replace(kernel(100.0, socket), keepalive_ms=begins)
    tracker.update(told, {socket.cookie: owner})
    [tracked] = tracker.connections.values()
    return tracked


def test_the_timer_shows_the_age_of_a_connection_older_than_the_agent():
    tracked = of_jvm(gone_ms=300_000, silence_ms=299_500)
    assert tracked.age_is_exact
    assert tracked.age_seconds(100.0) == 300.0
    assert unused_since_opening(tracked, 100.0) == pytest.approx(299.5)
    assert not tracked.seen_opening
    assert not tracked.first_for_owner
    assert not tracked.activities


def test_a_connection_that_was_used_before_the_agent_came_is_not_unused():
    tracked = of_jvm(gone_ms=300_000, silence_ms=200_000)
    assert was_used(tracked)
    assert unused_since_opening(tracked, 100.0) is None


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"library": Library.LIBRDKAFKA}, id="another library may set the time"),
        pytest.param({"library": Library.UNKNOWN}, id="an unknown one, too"),
        pytest.param({"begins": None}, id="nobody knows what it began with"),
        pytest.param({"alive": 7_300.0}, id="an older process: it may have run out"),
        pytest.param({"alive": 200.0}, id="older than its process"),
        pytest.param({"silence_ms": 400_000}, id="silent for longer: it has been set again"),
    ],
)
def test_a_timer_that_may_mean_something_else_shows_nothing(changes):
    tracked = of_jvm(**({"gone_ms": 300_000, "silence_ms": 299_500} | changes))
    assert not tracked.age_is_exact
    assert unused_since_opening(tracked, 100.0) is None


def test_a_connection_to_a_port_that_is_watched_late_was_not_opened_now():

    engine = Engine(Settings(), started=10_000.0)
    engine.poll(replace(kernel(100.0), keepalive_ms=HOURS_2), {})
    socket = replace(silent(299_500), at=101.0, keepalive_left_ms=HOURS_2 - 300_000)
    owner = replace(JVM, started=9_400.0)
    engine.poll(replace(kernel(101.0, socket), keepalive_ms=HOURS_2), {1: owner})
    [connection] = engine.connections
    assert connection.age_is_exact
    assert connection.age_seconds == 300.0
    engine.poll(replace(kernel(130.0, socket), keepalive_ms=HOURS_2), {1: owner})
    assert sum(engine.totals.opened.values()) == 0
