"""Laws of the tracker, whatever opens, moves and ends in whatever order."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from exporter.connections.tracker import Tracker
from exporter.model import Endpoint, TcpState
from tests.unit.sockets import end, figures, kernel, owned, reading

# Few ports and inodes for many cookies: the kernel uses them again.
sockets = st.builds(
    lambda cookie, port, inode, out, into, state: reading(
        cookie,
        local=Endpoint("10.1.0.7", 40_000 + port),
        inode=inode,
        tcp_state=state,
        info=figures(out, into),
    ),
    st.integers(1, 12),
    st.integers(0, 2),
    st.integers(0, 2),
    st.integers(0, 5_000),
    st.integers(0, 5_000),
    st.sampled_from(TcpState),
)
tables = st.lists(sockets, max_size=8, unique_by=lambda socket: socket.cookie)
polls = st.lists(
    st.tuples(tables, st.sets(st.integers(1, 12), max_size=4), st.floats(-3.0, 5.0)), max_size=12
)


def followed(steps):
    """Run a tracker over tables and destroy events; yield (at, table, changes, tracker)."""
    tracker = Tracker()
    at = 100.0
    for table, ended, pause in steps:
        at += pause
        now = [replace(socket, at=at) for socket in table if socket.cookie not in ended]
        events = [end(reading(cookie), at, figures(60, 80)) for cookie in sorted(ended)]
        changes = tracker.update(kernel(at, *now, closed=events), owned(*now))
        tracker.settle_vanished(
            {tracked.cookie: False for tracked in changes.vanished}, at, events_complete=True
        )
        yield at, now, changes, tracker


@given(polls)
def test_what_is_tracked_is_in_the_table(steps):
    for _at, table, _changes, tracker in followed(steps):
        assert set(tracker.connections) <= {socket.cookie for socket in table}


@given(polls)
def test_a_cookie_is_never_joined_to_anothers_past(steps):
    opened: dict[int, int] = {}
    for _at, _table, changes, tracker in followed(steps):
        for tracked in changes.opened:
            assert tracked.reading.cookie == tracked.cookie
            opened[tracked.cookie] = id(tracked)
        for cookie, tracked in tracker.connections.items():
            assert opened[cookie] == id(tracked)


@given(polls)
def test_nothing_is_open_and_closed_and_no_end_is_counted_twice(steps):
    opened: Counter[int] = Counter()
    closed: Counter[int] = Counter()
    for _at, _table, changes, tracker in followed(steps):
        opened.update(tracked.cookie for tracked in changes.opened)
        closed.update(ended.tracked.cookie for ended in changes.closed if ended.tracked)
        assert not {ended.tracked.cookie for ended in changes.closed if ended.tracked} & set(
            tracker.connections
        )
        assert all(closed[cookie] <= opened[cookie] for cookie in closed)


@given(polls)
def test_times_and_bytes_are_never_negative_also_when_the_clock_steps_back(steps):
    for at, _table, changes, tracker in followed(steps):
        for tracked in tracker.connections.values():
            assert tracked.age_seconds(at) >= 0
            assert tracked.idle_seconds(at) >= 0
            assert all(min(activity[1:]) >= 0 for activity in tracked.activities)
        for ended in changes.closed:
            assert ended.lifetime_seconds >= 0
            assert min(ended.rest[1:]) >= 0


@given(polls, st.randoms(use_true_random=False))
def test_the_order_of_sockets_does_not_matter(steps, chance):
    shuffled = [(chance.sample(table, len(table)), ended, pause) for table, ended, pause in steps]
    for one, other in zip(followed(steps), followed(shuffled), strict=True):
        assert sorted(one[3].connections) == sorted(other[3].connections)
        assert Counter(ended.closed_by for ended in one[2].closed) == Counter(
            ended.closed_by for ended in other[2].closed
        )
        for cookie, tracked in one[3].connections.items():
            twin = other[3].connections[cookie]
            assert tracked.activities == twin.activities
            assert tracked.first_for_owner == twin.first_for_owner
