"""The tracker: what opened, what ended and by whom, what vanished, what is owed an answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.connections.tracker import LINGER_SECONDS, MOST_OWNERS, Tracker
from exporter.model import ClosedBy, Endpoint, TcpState
from tests.unit.sockets import BROKER, JVM, end, figures, kernel, owned, reading

FIRST = reading()


def watching(*sockets, started=0.0):
    """A tracker that has looked twice, the second time at these."""
    tracker = Tracker(started)
    tracker.update(kernel(99.0), {})
    tracker.update(kernel(100.0, *sockets), owned(*sockets))
    return tracker


@pytest.mark.parametrize(
    ("info", "by"),
    [
        pytest.param(
            {"bytes_acked": 52, "segments_out": 5, "segments_in": 4},
            ClosedBy.CLIENT,
            id="client, then the broker follows",
        ),
        pytest.param(
            {"bytes_acked": 52, "bytes_received": 71, "segments_out": 6, "segments_in": 4},
            ClosedBy.CLIENT,
            id="client, and the broker's FIN comes with the acknowledgement",
        ),
        pytest.param(
            {"bytes_acked": 52, "bytes_received": 71, "segments_out": 5, "segments_in": 5},
            ClosedBy.BROKER,
            id="broker, the client follows at once",
        ),
        pytest.param(
            {"bytes_acked": 52, "bytes_received": 71, "segments_out": 6, "segments_in": 5},
            ClosedBy.UNKNOWN,
            id="broker, the client follows late; or client, the broker does",
        ),
        pytest.param(
            {
                "bytes_acked": 102,
                "bytes_sent": 100,
                "bytes_received": 71,
                "data_segments_out": 2,
                "segments_out": 6,
                "segments_in": 5,
            },
            ClosedBy.BROKER,
            id="broker, with a request that it had not answered: its FIN acknowledges that",
        ),
        pytest.param(
            {
                "bytes_acked": 102,
                "bytes_sent": 100,
                "bytes_received": 71,
                "data_segments_out": 2,
                "segments_out": 7,
                "segments_in": 5,
            },
            ClosedBy.UNKNOWN,
            id="the same, the client follows late; or client, after a request",
        ),
        pytest.param(
            {
                "bytes_acked": 102,
                "bytes_sent": 100,
                "bytes_received": 71,
                "data_segments_out": 2,
                "segments_out": 7,
                "segments_in": 4,
            },
            ClosedBy.CLIENT,
            id="client, after a request; the broker acknowledges both with its FIN",
        ),
        pytest.param({"segments_in": 4}, ClosedBy.BROKER, id="broker resets"),
        pytest.param(
            {"bytes_acked": 60, "bytes_sent": 59, "segments_out": 5, "segments_in": 5},
            ClosedBy.BROKER,
            id="broker resets what it did not read",
        ),
        pytest.param(
            {"bytes_received": 79, "segments_out": 6, "segments_in": 4, "data_segments_in": 2},
            ClosedBy.ABORT,
            id="client leaves bytes unread and resets",
        ),
        pytest.param({}, ClosedBy.ABORT, id="the kernel gives up"),
        pytest.param(
            {
                "bytes_acked": 52,
                "bytes_received": 110,
                "segments_in": 6,
                "data_segments_in": 2,
            },
            ClosedBy.UNKNOWN,
            id="data came last: it hides the FIN",
        ),
        pytest.param(
            {
                "bytes_acked": 52,
                "bytes_received": 110,
                "segments_in": 5,
                "data_segments_in": 2,
            },
            ClosedBy.CLIENT,
            id="data came last, and one bare segment: the client's FIN acknowledged",
        ),
        pytest.param(
            {"bytes_acked": 52, "bytes_received": 111, "segments_in": 6, "data_segments_in": 2},
            ClosedBy.BROKER,
            id="broker, close_notify of TLS 1.3 and FIN",
        ),
        pytest.param(
            {"bytes_sent": None, "bytes_acked": 52},
            ClosedBy.CLIENT,
            id="an older kernel, nothing came",
        ),
    ],
)
def test_who_closed_is_read_from_the_last_counters(info, by):
    """The figures are those that the kernel gave for each way to end a connection."""
    last = figures(50, 70, data_segments_out=1, data_segments_in=1)
    tracker = watching(replace(FIRST, info=last))
    changes = tracker.update(kernel(101.0, closed=[end(FIRST, 101.0, replace(last, **info))]), {})
    assert [closed.closed_by for closed in changes.closed] == [by]


def test_data_hides_no_fin_where_answers_always_carry_the_acknowledgement():
    busy = {"bytes_received": 700, "segments_in": 13, "data_segments_in": 12}
    last = figures(500, data_segments_out=12, **busy)
    tracker = watching(replace(FIRST, info=last))
    final = replace(
        last,
        bytes_acked=552,
        bytes_sent=550,
        bytes_received=771,
        segments_in=16,
        data_segments_in=13,
    )
    [closed] = tracker.update(kernel(101.0, closed=[end(FIRST, 101.0, final)]), {}).closed
    assert closed.closed_by is ClosedBy.BROKER


def hidden(of, at):
    """The end of a socket of which the counters do not tell who did it."""
    info = replace(of.info, bytes_acked=52, bytes_received=140, segments_in=8, data_segments_in=2)
    return end(of, at, info)


def test_what_ends_with_a_broker_was_ended_by_it():
    busy, idle = reading(1), reading(2)
    other = replace(JVM, key="42:1")
    tracker = Tracker()
    tracker.update(kernel(99.0), {})
    owners = {1: JVM, 2: other}
    tracker.update(kernel(100.0, busy, idle), owners)
    fin = figures(50, 70, bytes_acked=52, bytes_received=71, segments_in=5)
    changes = tracker.update(kernel(101.0, closed=[hidden(busy, 101.0), end(idle, 101.0, fin)]), {})
    assert [closed.closed_by for closed in changes.closed] == [ClosedBy.BROKER] * 2


def after_a_hidden_end(*more_sockets, closed=()):
    """Who is said to have ended a connection whose counters do not tell, given what else is so."""
    others = [socket for socket in more_sockets if socket.cookie != 1]
    tracker = watching(FIRST, *[replace(o, tcp_state=TcpState.ESTABLISHED) for o in others])
    later = [replace(other, at=101.0) for other in others]
    changes = tracker.update(
        kernel(101.0, *later, closed=[hidden(FIRST, 101.0), *closed]), owned(*later)
    )
    return changes.closed[0].closed_by


def refused(remote=BROKER):
    return end(reading(7, remote=remote), 101.0, figures(bytes_acked=0, segments_in=1))


ELSEWHERE = Endpoint("10.2.0.2", 9092)


@pytest.mark.parametrize(
    ("sockets", "closed", "by"),
    [
        pytest.param([], [], ClosedBy.UNKNOWN, id="alone"),
        pytest.param([], [refused()], ClosedBy.BROKER, id="the next attempts are refused"),
        pytest.param([], [refused(ELSEWHERE)], ClosedBy.UNKNOWN, id="another broker refuses"),
        pytest.param(
            [reading(2, tcp_state=TcpState.CLOSE_WAIT)],
            [],
            ClosedBy.BROKER,
            id="it has half closed another",
        ),
        pytest.param(
            [reading(2, tcp_state=TcpState.CLOSE_WAIT, remote=ELSEWHERE)],
            [],
            ClosedBy.UNKNOWN,
            id="another broker has half closed one",
        ),
    ],
)
def test_what_the_counters_hide_shows_in_what_else_happens_at_the_broker(sockets, closed, by):
    assert after_a_hidden_end(*sockets, closed=closed) is by


def test_an_old_half_closed_connection_says_nothing_of_an_end_now():
    half = reading(2, tcp_state=TcpState.CLOSE_WAIT)
    tracker = watching(FIRST, half)
    for at in (101.0, 102.0):
        both = replace(FIRST, at=at), replace(half, at=at)
        tracker.update(kernel(at, *both), owned(*both))
    later = replace(half, at=103.0)
    event = hidden(FIRST, 103.0)
    [closed] = tracker.update(kernel(103.0, later, closed=[event]), owned(later)).closed
    assert closed.closed_by is ClosedBy.UNKNOWN


@pytest.mark.parametrize(
    ("count", "left", "by"),
    [
        pytest.param(3, ELSEWHERE, ClosedBy.BROKER, id="all that went to one broker"),
        pytest.param(2, ELSEWHERE, ClosedBy.UNKNOWN, id="two are no proof"),
        pytest.param(3, BROKER, ClosedBy.UNKNOWN, id="another is still open to it"),
    ],
)
def test_a_broker_takes_all_its_connections_and_leaves_those_to_others(count, left, by):
    sockets = [reading(1 + n) for n in range(count)]
    stays = reading(9, remote=left)
    tracker = watching(*sockets, stays)
    later = replace(stays, at=101.0)
    events = [hidden(socket, 101.0) for socket in sockets]
    changes = tracker.update(kernel(101.0, later, closed=events), owned(later))
    assert {closed.closed_by for closed in changes.closed} == {by}


def unseen(cookie=9, **changes):
    """A conversation of two requests that no poll met: the kernel's figures of one."""
    sent = {"data_segments_out": 2, "data_segments_in": 2, "bytes_acked": 52, "bytes_sent": 50}
    info = figures(50, 70, **(sent | {"segments_in": 5, "segments_out": 7} | changes))
    return end(reading(cookie), 101.0, info)


@pytest.mark.parametrize(
    ("segments", "others", "by"),
    [
        pytest.param(5, [], ClosedBy.CLIENT, id="the first request's and the FIN's acknowledged"),
        pytest.param(6, [], ClosedBy.UNKNOWN, id="one more: a FIN, or a late answer"),
        pytest.param(6, [refused()], ClosedBy.BROKER, id="the next attempts are refused"),
        pytest.param(6, [unseen(8)], ClosedBy.UNKNOWN, id="a client ended another"),
    ],
)
def test_a_conversation_between_two_polls_is_the_clients_where_no_more_can_have_come(
    segments, others, by
):
    events = [unseen(segments_in=segments), *others]
    changes = watching().update(kernel(101.0, closed=events), {})
    assert changes.closed[0].closed_by is by


def test_what_ends_with_its_process_was_ended_by_it():
    elsewhere = Endpoint("10.2.0.2", 9092)
    sockets = reading(1), reading(2, remote=elsewhere)
    tracker = watching(*sockets)
    events = [hidden(socket, 101.0) for socket in sockets]
    changes = tracker.update(kernel(101.0, closed=events), {})
    assert [closed.closed_by for closed in changes.closed] == [ClosedBy.CLIENT] * 2


@pytest.mark.parametrize(
    ("state", "by"),
    [
        (TcpState.CLOSE_WAIT, ClosedBy.BROKER),
        (TcpState.LAST_ACK, ClosedBy.BROKER),
        (TcpState.FIN_WAIT1, ClosedBy.CLIENT),
        (TcpState.FIN_WAIT2, ClosedBy.CLIENT),
        (TcpState.TIME_WAIT, ClosedBy.CLIENT),
        (TcpState.CLOSING, ClosedBy.CLIENT),
    ],
)
def test_a_state_that_a_poll_saw_tells_more_than_counters(state, by):
    tracker = watching(FIRST)
    later = replace(FIRST, at=101.0, tcp_state=state)
    tracker.update(kernel(101.0, later), owned(later))
    changes = tracker.update(kernel(102.0, closed=[end(FIRST, 102.0, FIRST.info)]), {})
    assert [closed.closed_by for closed in changes.closed] == [by]


def test_what_the_application_let_go_is_closed_once_whatever_the_kernel_still_does():
    tracker = watching(FIRST)
    lingering = replace(FIRST, at=101.0, tcp_state=TcpState.FIN_WAIT2, inode=0)
    changes = tracker.update(kernel(101.0, lingering), owned(lingering))
    assert [closed.closed_by for closed in changes.closed] == [ClosedBy.CLIENT]
    assert tracker.connections == {}
    again = tracker.update(kernel(102.0, lingering), owned(lingering))
    assert again.opened == []
    gone = tracker.update(kernel(103.0, closed=[end(FIRST, 103.0, FIRST.info)]), {})
    assert gone.closed == []


def test_a_connection_that_never_got_through_is_refused_and_has_no_life():
    """A refused connect() of a client that does not block keeps its port, as measured."""
    tracker = watching(FIRST)
    nothing = figures(bytes_acked=0, segments_out=1, segments_in=1, last_data_sent_ms=3_650_600)
    event = end(reading(2), 101.0, nothing)
    [closed] = tracker.update(kernel(101.0, FIRST, closed=[event]), owned(FIRST)).closed
    assert (closed.closed_by, closed.lifetime_seconds, closed.tracked) == (
        ClosedBy.REFUSED,
        0.0,
        None,
    )


@pytest.mark.parametrize(
    ("address", "by"), [(BROKER.address, ClosedBy.ABORT), ("10.2.0.9", ClosedBy.REFUSED)]
)
def test_an_end_without_any_figures_is_an_abort_where_others_get_through(address, by):
    """tcp_disconnect() wipes everything, for SO_LINGER 0 and for a connect() refused at once."""
    tracker = watching(FIRST)
    wiped = figures(bytes_acked=0, segments_out=0, segments_in=0, data_segments_in=0)
    event = end(reading(2), 101.0, wiped, remote=Endpoint(address, 0))
    [closed] = tracker.update(kernel(101.0, FIRST, closed=[event]), owned(FIRST)).closed
    assert closed.closed_by is by
    assert not closed.had_conversation


def test_a_probe_between_two_polls_hung_up_itself_and_said_nothing():
    tracker = watching()
    probe = figures(bytes_acked=2, bytes_received=1, bytes_sent=0, segments_out=4, segments_in=2)
    [closed] = tracker.update(kernel(101.0, closed=[end(reading(2), 101.0, probe)]), {}).closed
    assert closed.closed_by is ClosedBy.CLIENT
    assert not closed.had_conversation
    assert closed.lifetime_seconds <= 1.0


def test_a_connecting_socket_that_ends_was_refused():
    connecting = reading(tcp_state=TcpState.SYN_SENT, info=figures(bytes_acked=0))
    tracker = watching(connecting)
    event = end(connecting, 101.0, figures(bytes_acked=0))
    [closed] = tracker.update(kernel(101.0, closed=[event]), {}).closed
    assert closed.closed_by is ClosedBy.REFUSED


def test_the_bytes_after_the_last_look_are_told_without_the_fins():
    tracker = watching(FIRST)
    info = figures(80, 170, bytes_acked=82, bytes_received=171, data_segments_in=2)
    [closed] = tracker.update(kernel(101.0, closed=[end(FIRST, 101.0, info)]), {}).closed
    assert (closed.rest.outgoing_bytes, closed.rest.incoming_bytes) == (30, 100)


def test_a_cookie_makes_a_connection_not_a_port_nor_an_inode():
    """Ports and inodes are used again."""
    tracker = watching(FIRST)
    successor = reading(2, at=101.0, local=FIRST.local, inode=FIRST.inode)
    event = end(FIRST, 101.0, FIRST.info)
    changes = tracker.update(kernel(101.0, successor, closed=[event]), owned(successor))
    assert [opened.cookie for opened in changes.opened] == [2]
    assert [closed.tracked.cookie for closed in changes.closed] == [1]
    assert list(tracker.connections) == [2]


def test_the_same_reading_again_means_that_nothing_happened():
    tracker = watching(FIRST)
    changes = tracker.update(kernel(101.0, FIRST), owned(FIRST))
    assert (changes.opened, changes.closed, changes.active, changes.vanished) == ([], [], [], [])


def test_a_vanished_socket_with_its_descriptor_is_a_ghost_at_the_second_poll():
    tracker = watching(FIRST)
    for at, ghost in ((101.0, False), (102.0, True)):
        changes = tracker.update(kernel(at), {})
        assert [tracked.cookie for tracked in changes.vanished] == [1]
        assert tracker.settle_vanished({1: True}, at, events_complete=True) == []
        assert tracker.connections[1].ghost is ghost
    # Its descriptor is closed in the end: the kernel announces it.
    [closed] = tracker.update(kernel(103.0, closed=[end(FIRST, 103.0, FIRST.info)]), {}).closed
    assert closed.closed_by is ClosedBy.BROKER


def test_a_vanished_socket_is_closed_where_its_descriptor_is_gone_or_events_were_lost():
    for held, complete in ((False, True), (None, False)):
        tracker = watching(FIRST)
        tracker.update(kernel(101.0, complete=complete), {})
        closed = tracker.settle_vanished({1: held}, 101.0, events_complete=complete)
        assert [one.closed_by for one in closed] == [ClosedBy.UNKNOWN]
        late = tracker.update(kernel(102.0, closed=[end(FIRST, 102.0, FIRST.info)]), {})
        assert late.closed == []


def test_what_turns_out_to_be_no_clients_is_left_out_and_did_not_end():
    tracker = watching(FIRST)
    changes = tracker.update(kernel(101.0, FIRST), {})
    assert [tracked.cookie for tracked in changes.excluded] == [1]
    assert (changes.closed, tracker.connections) == ([], {})
    gone = tracker.update(kernel(102.0, closed=[end(FIRST, 102.0, FIRST.info)]), {})
    assert gone.closed == []


def test_cookies_that_are_no_clients_are_not_remembered_for_ever():
    tracker = Tracker()
    steady = reading(1)
    for number in range(50):
        at = number * LINGER_SECONDS / 10
        passing = reading(10 + number, at=at)
        tracker.update(kernel(at, steady, passing), {})
    assert len(tracker._counted) <= 12
    assert 1 in tracker._counted


def test_processes_that_are_gone_are_not_remembered_for_ever():
    tracker = watching(FIRST)
    for number in range(MOST_OWNERS + 50):
        other = reading(100 + number, at=101.0 + number)
        owner = replace(JVM, key=f"{number}:1")
        event = end(other, 101.5 + number, other.info)
        tracker.update(kernel(101.0 + number, FIRST, other), owned(FIRST) | {other.cookie: owner})
        tracker.update(kernel(101.5 + number, FIRST, closed=[event]), owned(FIRST))
    assert len(tracker._owners_seen) <= MOST_OWNERS
    assert JVM.key in tracker._owners_seen


@pytest.mark.parametrize(
    ("started", "siblings", "first"),
    [
        pytest.param(1_000.0, 0, True, id="a process younger than the agent"),
        pytest.param(3_000.0, 0, False, id="an older process may have had others before"),
        pytest.param(1_000.0, 1, False, id="two at once: neither is known to be the first"),
    ],
)
def test_a_first_connection_is_one_before_which_there_was_none(started, siblings, first):
    sockets = [reading(1 + number) for number in range(1 + siblings)]
    tracker = watching(*sockets, started=started)
    assert {tracked.first_for_owner for tracked in tracker.connections.values()} == {first}


def test_connections_older_than_the_agent_have_an_age_of_at_least_their_silence():
    tracker = Tracker()
    quiet = reading(info=figures(50, 70, last_data_sent_ms=5_000, last_data_received_ms=60_000))
    tracker.update(kernel(100.0, quiet), owned(quiet))
    [tracked] = tracker.connections.values()
    assert not tracked.age_is_exact
    assert tracked.age_seconds(100.0) == 60.0
    assert tracked.idle_seconds(100.0) == 5.0


def test_times_never_run_backwards_with_the_clock():
    """A monotonic clock does not; a suspended machine's or a bad hypervisor's may seem to."""
    tracker = watching(FIRST)
    earlier = reading(at=50.0, info=figures(60, 80))
    tracker.update(kernel(50.0, earlier), owned(earlier))
    [tracked] = tracker.connections.values()
    assert tracked.age_seconds(50.0) >= 0.0
    assert tracked.idle_seconds(50.0) >= 0.0


def test_segments_that_were_sent_again_are_told_also_when_no_byte_got_through():
    tracker = watching(FIRST)
    again = replace(FIRST, at=101.0, info=replace(FIRST.info, retransmits_total=3))
    changes = tracker.update(kernel(101.0, again), owned(again))
    assert [(tracked.cookie, count) for tracked, count in changes.retransmitted] == [(1, 3)]
    assert changes.active == []


def exchanges(*steps, opened=10.0):
    """A tracked connection after readings (out, in, sent, received, acked) a second apart."""
    tracker = Tracker()
    tracker.update(kernel(opened - 1), {})
    for second, (out, into, sent, received, acked) in enumerate(steps):
        at = opened + second
        info = figures(
            out,
            into,
            data_segments_in=1 if into else 0,
            last_data_sent_ms=sent,
            last_data_received_ms=received,
            last_ack_received_ms=acked,
        )
        now = reading(at=at, info=info)
        tracker.update(kernel(at, now), owned(now))
    return tracker.connections[1]


HABIT = [(50 + 10 * n, 70 + 10 * n, 200, 199, 199) for n in range(6)]


def test_nothing_is_owed_while_every_request_is_answered():
    assert exchanges(*HABIT).unanswered_since is None


def test_a_request_without_an_answer_is_owed_one_since_it_went():
    owed = exchanges(*HABIT, (200, 120, 300, 1_300, 290))
    assert owed.unanswered_since == pytest.approx(16.0 - 0.3)


def test_a_request_that_went_right_after_an_answer_is_owed_one():
    """A consumer fetches again at once; both fall between two polls."""
    assert exchanges(*HABIT, (200, 220, 100, 110, 100)).unanswered_since == pytest.approx(15.9)


def test_a_late_acknowledgement_shows_a_request_in_the_same_tick_as_the_answer_before():
    owed = exchanges(*HABIT, (200, 220, 100, 100, 60))
    assert owed.unanswered_since == pytest.approx(15.9)


def test_a_connection_that_never_got_a_byte_is_owed_one():
    assert exchanges((58, 0, 900, 1_000, 890)).unanswered_since is not None


def test_acks_0_is_owed_nothing():
    sends = [(50 + 90 * n, 900, 200, 1_000 * n, 190) for n in range(1, 6)]
    assert exchanges((50, 900, 300, 290, 290), *sends).unanswered_since is None


def test_who_is_used_to_long_polls_is_owed_nothing():
    steps = []
    for poll in range(4):
        out, into = 100 + 100 * poll, 100 + 100 * poll
        steps += [(out, into - 50, 100, 30_000, 60)] * 6
        steps += [(out, into, 6_100, 100, 100)]
    assert exchanges(*HABIT[:1], *steps).long_polls >= 3
    assert exchanges(*HABIT[:1], *steps, (900, 500, 100, 900, 60)).unanswered_since is None


def test_connections_beyond_the_limit_are_counted_not_followed():
    """Two are followed of three, and the third once there is room."""
    sockets = [reading(cookie=cookie) for cookie in (1, 2, 3)]
    tracker = Tracker(most=2)
    tracker.update(kernel(100.0, *sockets), owned(*sockets))
    assert len(tracker.connections) == 2
    assert tracker.beyond_limit == 1
    left = sockets[1:]
    tracker.update(kernel(101.0, *left, closed=[end(sockets[0], 101.0, None)]), owned(*left))
    tracker.update(kernel(102.0, *left, reading(cookie=4)), owned(*left))
    assert set(tracker.connections) == {2, 3}
    assert tracker.beyond_limit == 0
