"""What the join states of each socket, read after read, and what it takes back."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from exporter.join import attribution as join_attribution
from exporter.join.attribution import Attributor
from exporter.model import (
    ClientGroup,
    ClientKind,
    Confidence,
    JoinSample,
    Library,
    Owner,
    OwnerRung,
    Role,
)
from tests.unit.joins import HERE, THERE, client, look, node, page
from tests.unit.sockets import kernel

PLAINTEXT = {"authentications": 0, "reauthentications": 0}


def connected(count, **more):
    return PLAINTEXT | {"connection_count": count, "connections_created": count} | more


class Host:
    """Sockets of processes, by cookie; all is read every two seconds while nothing goes."""

    def __init__(self):
        self.join = Attributor()
        self.at = 100.0
        self.sockets = {}
        self.tracked = {}

    def open(self, cookie, remote=HERE, *, pid=1, group=None):
        """Let a process have a socket."""
        owner = Owner(key=f"pid:{pid}", rung=OwnerRung.PROC_FD, name="app", pid=pid)
        its_group = None if group is None else ClientGroup(key=f"{pid}/{group}", number=1)
        self.sockets[cookie] = remote
        self.tracked[cookie] = SimpleNamespace(
            owner=owner, group=its_group, opened_at=10.0, age_is_exact=True, ghost=False
        )

    def looks(self, at, counts):
        return kernel(
            at,
            *(
                look(at, *figures, cookie=cookie, remote=self.sockets[cookie])
                for cookie, figures in counts.items()
            ),
        )

    def read(
        self, counts, *clients, sender_pid=1, source="app",
        addresses_of=lambda _host: frozenset(),
    ):  # fmt: skip
        """Read sockets (their counts, out and in) and a source; return what is stated."""
        self.at += 2.0
        sample = JoinSample(
            before=self.looks(self.at - 1, counts),
            reading=replace(page(self.at, *clients, sender_pid=sender_pid), source=source),
            after=self.looks(self.at + 1, counts),
        )
        self.join.update(sample, self.tracked, addresses_of)
        return self.stated

    @property
    def stated(self):
        return {
            cookie: (each.client.client_id, each.node.node_id)
            for cookie, each in self.join.attributions.items()
        }


def one_client(**more):
    """Return a host with a group of two sockets, and its client."""
    host = Host()
    host.open(1, group=1)
    host.open(2, THERE, group=1)
    told = client("a", node("-1", 50, 60), node("1", 70, 80), **connected(2, **more))
    return host, told


COUNTS = {1: (50, 60), 2: (70, 80)}


def settle(host, counts, *clients, times=5, **given):
    stated = {}
    for _ in range(times):
        stated = host.read(counts, *clients, **given)
    return stated


# ---- what is stated ------------------------------------------------------------------------------


def test_a_socket_that_may_be_one_node_alone_is_stated_to_be_that_node():
    host, told = one_client()
    assert settle(host, COUNTS, told) == {1: ("a", "-1"), 2: ("a", "1")}
    stated = host.join.attributions[2]
    assert stated.confidence is Confidence.EXACT
    assert stated.equals == ()
    assert stated.node.role is Role.ADMIN
    assert "70 B out and 80 B in for node 1" in stated.evidence[0]


@pytest.mark.parametrize("group", [1, None], ids=["group", "pool"])
@pytest.mark.parametrize(
    ("cost", "login", "evidence"),
    [
        (0, 0, "the kernel counts the same for this socket"),
        (0, 70, "sockets only this one counts as much with its login"),
        (38, 700, "sockets only this one counts as much with its TLS handshake"),
    ],
    ids=["equal", "login", "handshake"],
)
def test_the_evidence_says_what_the_byte_counts_were_compared_with(group, cost, login, evidence):
    host = Host()
    host.open(1, group=group)
    for number in range(1, 6):
        counted = 100 * number
        told = node("-1", counted, counted, requests=number, responses=number)
        there = counted + login + number * cost
        host.read(
            {1: (there, there)},
            client("a", told, **connected(1, authentications=int(login > 0))),
        )
    (stated,) = host.join.attributions.values()
    whose = "its process's" if group is None else "its client's"
    assert stated.evidence[0].endswith(evidence)
    assert not login or f"of {whose} {evidence}" in stated.evidence[0]
    # Without groups, only equality excludes a client that is not on the page.
    is_exact = group is not None or not login
    assert stated.confidence is (Confidence.EXACT if is_exact else Confidence.STRONG)


def test_where_the_options_are_nodes_of_one_role_one_of_them_is_named_with_its_equals():
    host, told = one_client()
    same = replace(told, nodes=(node("-1", 50, 60), node("-2", 50, 60)))
    settle(host, {1: (50, 60), 2: (50, 60)}, same)
    stated = host.join.attributions
    assert {stated[1].node.node_id, stated[2].node.node_id} == {"-1", "-2"}
    for each in stated.values():
        assert each.evidence[0].endswith("one of several that no figure distinguishes")
        (other,) = {"-1", "-2"} - {each.node.node_id}
        assert each.equals == (f"admin 'a' node {other}",)
        assert each.confidence is Confidence.STRONG


def test_where_the_options_differ_in_role_the_client_alone_is_stated():
    host, told = one_client()
    same = replace(told, nodes=(node("-1", 50, 60), node("1", 50, 60)))
    settle(host, {1: (50, 60), 2: (50, 60)}, same)
    for each in host.join.attributions.values():
        assert (each.client.client_id, each.node.node_id, each.node.role) == ("a", "", Role.UNKNOWN)
        assert each.equals == ("admin 'a' node -1", "admin 'a' node 1")


def test_twins_that_count_the_same_are_named_as_equals():
    """Each may have the other's name: nobody can see that they are exchanged."""
    host = Host()
    host.open(1, group=1)
    host.open(2, group=2)
    clients = [client(name, node("-1", 50, 60), **connected(1)) for name in "ab"]
    settle(host, {1: (50, 60), 2: (50, 60)}, *clients)
    assert sorted(host.stated.values()) == [("a", "-1"), ("b", "-1")]
    for each in host.join.attributions.values():
        (other,) = {"a", "b"} - {each.client.client_id}
        assert each.equals == (f"admin {other!r} node -1",)


@pytest.mark.parametrize(
    ("kinds", "kind"),
    [
        ((ClientKind.PRODUCER, ClientKind.PRODUCER), ClientKind.PRODUCER),
        ((ClientKind.PRODUCER, ClientKind.CONSUMER), ClientKind.UNKNOWN),
    ],
)
def test_of_clients_that_count_differently_only_what_they_share_is_stated(kinds, kind):
    """Under TLS a resumed handshake and some bytes are as much as a full one and fewer bytes."""
    host = Host()
    host.open(1, group=1)
    host.open(2, group=2)
    reported = {"connection_count": 1, "connections_created": 1, "authentications": 1}
    clients = [
        client(name, node("-1", size, size, requests=1, responses=1), kind=each, **reported)
        for name, size, each in zip("ab", (50, 60), kinds, strict=True)
    ]
    settle(host, {1: (700, 900), 2: (700, 900)}, *clients)
    assert len(host.join.attributions) == 2
    for each in host.join.attributions.values():
        assert (each.client.client_id, each.client.kind) == ("", kind)
        assert (each.node.node_id, each.node.role) == ("", Role.BOOTSTRAP)
        assert len(each.equals) == 2


def test_clients_and_roles_that_all_differ_leave_nothing_to_state():
    host = Host()
    host.open(1, group=1)
    host.open(2, group=2)
    reported = {"connection_count": 1, "connections_created": 1, "authentications": 1}
    clients = [
        client("a", node("-1", 50, 50, requests=1, responses=1), **reported),
        client("b", node("1", 60, 60, requests=1, responses=1), **reported),
    ]
    clients = [replace(each, connections_created=2) for each in clients]
    assert settle(host, {1: (700, 900), 2: (700, 900)}, *clients) == {}
    assert host.join.is_claimable(1)


def test_a_socket_of_more_equals_than_can_be_listed_is_unknown(monkeypatch):
    monkeypatch.setattr(join_attribution, "MOST_EQUALS", 0)
    host, told = one_client()
    same = replace(told, nodes=(node("-1", 50, 60), node("-2", 50, 60)))
    assert settle(host, {1: (50, 60), 2: (50, 60)}, same) == {}


# ---- from read to read ---------------------------------------------------------------------------


def test_a_later_read_that_contradicts_takes_back_what_was_stated():
    host, told = one_client()
    settle(host, COUNTS, told)
    for total in (100, 200):
        # The socket grows, its node does not.
        later = replace(told, nodes=(node("-1", 50 + total, 60), node("1", 70, 80)))
        host.read({1: (50, 60), 2: (70, 80 + total)}, later)
    assert host.stated == {}
    # Node -1 is left for the first socket, none for the second.
    assert host.join.outlived == {2}


def test_a_socket_that_fits_its_node_again_has_not_outlived_it():
    host, told = one_client()
    settle(host, COUNTS, told)
    host.join._outlived.add(1)
    host.read(COUNTS, told)
    assert not host.join.outlived


def test_what_is_stated_has_the_figures_of_the_last_read():
    host, told = one_client()
    settle(host, COUNTS, told)
    later = replace(told, nodes=(node("-1", 50, 60), node("1", 75, 85)))
    host.read({1: (50, 60), 2: (75, 85)}, later)
    assert host.join.attributions[2].node.outgoing_bytes == 75


def test_a_socket_that_is_gone_is_forgotten():
    host, told = one_client()
    settle(host, COUNTS, told)
    host.join.forget([1])
    assert 1 not in host.stated
    assert not host.join.is_claimable(1)


def test_a_process_that_was_restarted_is_forgotten_with_the_first_page_of_the_next():
    host, told = one_client()
    settle(host, COUNTS, told)
    host.join.forget([1, 2])
    for pid in (2, 3, 4):
        host.open(10 * pid, pid=pid)
        host.read({10 * pid: (50, 60)}, told, sender_pid=pid)
        assert host.join.senders == {("app", pid)}
        host.join.forget([10 * pid])


def test_a_ghost_keeps_its_name_and_frees_its_node():
    host, told = one_client()
    settle(host, COUNTS, told)
    host.tracked[1].ghost = True
    host.join.release(1)
    assert host.stated[1] == ("a", "-1")
    assert not host.join.is_claimable(1)
    host.read(COUNTS, told)
    assert host.stated[1] == ("a", "-1")


def test_a_socket_is_claimable_while_a_node_is_left_for_it():
    host, told = one_client()
    host.open(3, group=2)
    settle(host, COUNTS | {3: (9, 9)}, told)
    assert host.join.is_claimable(1)
    assert not host.join.is_claimable(3)
    assert not host.join.is_claimable(99)


def test_a_client_has_learned_once_a_broker_under_its_real_id_has_answered():
    host, told = one_client()
    key = told.key("app")
    assert not host.join.has_learned(key)
    host.read(COUNTS, replace(told, nodes=(node("-1", 50, 60), node("1", 70, None))))
    assert not host.join.has_learned(key)
    host.read(COUNTS, told)
    assert host.join.has_learned(key)


# ---- whose sockets they are ----------------------------------------------------------------------


def test_a_sender_speaks_only_for_its_own_process():
    host, told = one_client()
    for cookie, remote in ((3, HERE), (4, THERE)):
        host.open(cookie, remote, pid=2, group=1)
    both = COUNTS | {3: (50, 60), 4: (70, 80)}
    assert settle(host, both, told).keys() == {1, 2}
    assert settle(host, both, told, sender_pid=2).keys() == {1, 2, 3, 4}


def test_statistics_that_an_unknown_process_pushes_are_nobody_elses():
    host = Host()
    host.open(1)
    for total in range(50, 56):
        here = node("1", 3 * total, total, remote_name=str(HERE), connection_state="UP")
        pushed = client("a", here, library=Library.LIBRDKAFKA)
        assert host.read({1: (3 * total, total)}, pushed, sender_pid=9) == {}
    for total in range(56, 60):
        here = node("1", 3 * total, total, remote_name=str(HERE), connection_state="UP")
        pushed = client("a", here, library=Library.LIBRDKAFKA)
        host.read({1: (3 * total, total)}, pushed, sender_pid=1)
    assert host.stated == {1: ("a", "1")}


def grow(host, told, total, cookies):
    """Let a client's node 1 count more, and these sockets with it."""
    now = 70 + 3 * total, 80 + total
    resting = {1: (50, 60), 2: (70, 80), 3: (50, 60), 4: (70, 80)}
    counts = {cookie: now if cookie in cookies else resting[cookie] for cookie in host.sockets}
    later = replace(told, nodes=(node("-1", 50, 60), node("1", *now)))
    return host.read(counts, later, sender_pid=None)


def test_a_page_without_a_sender_is_of_the_process_whose_sockets_grow_with_it():
    host, told = one_client()
    host.open(3, pid=2, group=1)
    host.open(4, THERE, pid=2, group=1)
    assert settle(host, COUNTS | {3: (50, 60), 4: (70, 80)}, told, sender_pid=None) == {}
    for total in range(1, 6):
        stated = grow(host, told, total, [2])
    assert stated == {1: ("a", "-1"), 2: ("a", "1")}


def test_a_page_without_a_sender_is_nobodys_while_two_processes_grow_with_it():
    host, told = one_client()
    host.open(3, pid=2, group=1)
    host.open(4, THERE, pid=2, group=1)
    for total in range(1, 8):
        assert grow(host, told, total, [2, 4]) == {}


def test_a_page_that_was_shown_to_be_of_a_process_stays_its_page():
    host, told = one_client()
    for total in range(1, 6):
        shown = grow(host, told, total, [2])
    host.open(3, pid=2, group=1)
    host.open(4, THERE, pid=2, group=1)
    for total in range(6, 10):
        assert grow(host, told, total, [2, 4]) == shown


def test_a_page_that_another_process_serves_is_of_the_process_whose_sockets_fit():
    host, told = one_client()
    assert settle(host, COUNTS, told, sender_pid=9).keys() == {1, 2}


def test_a_socket_that_one_source_has_named_is_not_another_sources():
    host, told = one_client()
    settle(host, COUNTS, told)
    settle(host, COUNTS, replace(told, client_id="b"), source="another")
    assert {name for name, _node in host.stated.values()} == {"a"}


def test_where_a_process_speaks_for_itself_a_page_without_a_sender_is_not_its_own():
    host, told = one_client()
    stated = settle(host, COUNTS, told)
    for total in range(1, 6):
        stated = grow(host, client("b", *told.nodes, **connected(2)), total, [2])
        assert {name for name, _node in stated.values()} == {"a"}
        # Its own page is read as well.
        stated = host.read(
            COUNTS | {2: (70 + 3 * total, 80 + total)},
            replace(told, nodes=(node("-1", 50, 60), node("1", 70 + 3 * total, 80 + total))),
        )
    assert {name for name, _node in stated.values()} == {"a"}


# ---- librdkafka ----------------------------------------------------------------------------------


def pushed(name, remote_name):
    here = node("1", 50, 60, remote_name=remote_name, connection_state="UP", connects=1)
    return client(name, here, library=Library.LIBRDKAFKA)


@pytest.mark.parametrize(
    ("remote_name", "is_stated"),
    [
        ("10.0.0.1:9093", True),
        ("[10.0.0.1]:9093", True),
        ("10.0.0.1:9092", False),
        ("10.0.0.2:9093", False),
        ("10.0.0.1", False),
        ("kafka-1:9093", True),
        ("kafka-2:9093", False),
        ("elsewhere:9093", True),
    ],
)
def test_a_socket_is_at_the_address_that_its_client_names(remote_name, is_stated):
    """A name that cannot be resolved excludes nothing."""
    host = Host()
    host.open(1)
    addresses = {"kafka-1": frozenset({"10.0.0.1"}), "kafka-2": frozenset({"10.0.0.2"})}
    stated = settle(
        host, {1: (50, 60)}, pushed("a", remote_name),
        addresses_of=lambda name: addresses.get(name, frozenset()),
    )  # fmt: skip
    assert bool(stated) is is_stated


def test_clients_of_librdkafka_that_fall_silent_are_forgotten_with_their_sockets():
    host = Host()
    host.open(1)
    host.open(2, THERE)
    for _ in range(5):
        host.read({1: (50, 60), 2: (50, 60)}, pushed("a", str(HERE)))
    last = host.at
    for _ in range(5):
        host.read({1: (50, 60), 2: (50, 60)}, pushed("b", str(THERE)))
    assert host.stated == {1: ("a", "1"), 2: ("b", "1")}
    host.join.forget_silent("another", host.at + 99.0)
    host.join.forget_silent("app", last)
    assert host.stated.keys() == {1, 2}
    host.join.forget_silent("app", last + 1.0)
    assert host.stated == {2: ("b", "1")}
    host.join.forget_silent("app", host.at + 1.0)
    assert host.stated == {}
