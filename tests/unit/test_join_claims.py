"""What every assignment of a process's sockets to its clients' nodes shares."""

from __future__ import annotations

import pytest

from exporter.join.claims import _parts
from exporter.join.laws import PLAIN
from exporter.join.pairs import Pair
from exporter.model import ClientKind, Library
from tests.unit.joins import HERE, THERE, Process, client, node, row, socket

PLAINTEXT = {"authentications": 0, "reauthentications": 0}


def connected(count, created=None):
    """Return what a Java client reports of its connections in plaintext."""
    created = count if created is None else created
    return PLAINTEXT | {"connection_count": count, "connections_created": created}


def repeat(process, times, counts, *clients, **given):
    """Read the same so often; return the last claims."""
    claimed = {}
    for _ in range(times):
        claimed = process.read(counts, *clients, **given)
    return claimed


# ---- groups --------------------------------------------------------------------------------------


class Groups:
    """Two clients, each with a group of one socket; the first node is `a`'s."""

    def __init__(self, *, mine="g1", other="g2"):
        self.process = Process()
        self.mine, self.other = socket(1, group=mine), socket(2, THERE, group=other)
        self.counts = {self.mine: (50, 60), self.other: (70, 80)}
        self.clients = [self.client("a", 50, 60), self.client("b", 70, 80)]

    @staticmethod
    def client(name, out, incoming, **more):
        return client(name, node("-1", out, incoming), **(connected(1) | more))

    def read(self, times, **given):
        return repeat(self.process, times, self.counts, *self.clients, **given)


def test_each_group_is_the_client_whose_counts_it_has():
    assert Groups().read(5) == {1: {("a", "-1")}, 2: {("b", "-1")}}


def test_no_group_is_named_before_its_client_must_have_it():
    groups = Groups()
    assert groups.read(1) == {}


def test_a_group_that_fits_two_clients_goes_to_the_one_the_others_leave():
    """`b` may be either group by its counts, `a` one of them alone."""
    groups = Groups()
    groups.counts[groups.other] = (150, 160)
    # What b has counted beyond the second socket it may have counted on an earlier connection.
    groups.clients[1] = groups.client("b", 150, 160, connections_created=3)
    assert groups.read(6) == {1: {("a", "-1")}, 2: {("b", "-1")}}


def test_groups_that_count_the_same_may_be_either_client():
    groups = Groups()
    groups.counts[groups.other] = (50, 60)
    groups.clients[1] = groups.client("b", 50, 60)
    both = {("a", "-1"), ("b", "-1")}
    assert groups.read(5) == {1: both, 2: both}


def test_a_client_that_holds_fewer_sockets_is_not_a_settled_group():
    """Its other node had a socket before: both sockets could be its nodes otherwise."""
    process = Process()
    one, two = socket(1, group="g"), socket(2, THERE, group="g")
    two_nodes = node("-1", 50, 60), node("1", 70, 80)
    counts = {one: (50, 60), two: (70, 80)}
    holds_one = client("a", *two_nodes, **connected(1, created=2))
    assert repeat(process, 6, counts, holds_one) == {}
    process = Process()
    holds_both = client("a", *two_nodes, **connected(2))
    assert repeat(process, 6, counts, holds_both) == {1: {("a", "-1")}, 2: {("a", "1")}}


def test_a_group_that_has_just_changed_may_have_a_socket_that_the_page_does_not_count():
    process = Process()
    one, two = socket(1, group="g"), socket(2, THERE, group="g", opened=109.5)
    mine = client("a", node("-1", 50, 60), node("1", 70, 80), **connected(1, created=2))
    settled = repeat(process, 5, {one: (50, 60)}, mine)
    assert settled == {1: {("a", "-1")}}
    changed = process.read({one: (50, 60), two: (300, 0)}, mine)
    assert changed == settled


def test_sockets_of_no_known_group_leave_all_groups_open_for_a_read():
    """One that has closed since may be a client's that the page still counts."""
    groups = Groups()
    claimed = groups.read(5)
    groups.process.read(groups.counts | {socket(3): (0, 0)}, *groups.clients)
    assert groups.read(1) == {}
    assert groups.read(1) == claimed


def test_a_group_that_is_gone_may_still_be_the_client_that_a_page_shows():
    """The page may be a read late: what it counts may be the closed socket's."""
    groups = Groups()
    groups.counts[groups.other] = (50, 60)
    groups.clients[1] = groups.client("b", 50, 60)
    groups.read(5)
    del groups.counts[groups.other]
    both = {1: {("a", "-1"), ("b", "-1")}}
    assert groups.read(2) == both
    # The page no longer shows the client that is gone.
    del groups.clients[1]
    assert groups.read(1) == {1: {("a", "-1")}}


def test_a_group_stays_gone_for_two_reads_and_not_longer():
    """Then a client that says that it holds a connection must have one that is there."""
    groups = Groups()
    groups.read(5)
    del groups.counts[groups.other]
    for _ in range(2):
        groups.read(1)
        assert groups.process.claims._groups.keys() == {"g1", "g2"}
    groups.read(1)
    assert groups.process.claims._groups.keys() == {"g1"}


def test_a_group_whose_page_counts_connections_late_stays_its_clients_meanwhile():
    process = Process()
    one, two = socket(1, group="g"), socket(2, THERE, group="g")
    nodes = node("-1", 50, 60), node("1", 70, 80)
    repeat(process, 5, {one: (50, 60)}, client("a", nodes[0], **connected(1)))
    for _ in range(2):
        claimed = process.read({one: (50, 60), two: (70, 80)}, client("a", *nodes, **connected(1)))
        assert claimed[1] == {("a", "-1")}


def test_a_client_that_counts_no_connections_has_a_group_while_it_counts_bytes():
    groups = Groups()
    del groups.counts[groups.other]
    groups.clients = [client("a", node("-1", 50, 60), **PLAINTEXT)]
    assert groups.read(6) == {}
    for total in (55, 61):
        groups.counts[groups.mine] = total, 60
        groups.clients = [client("a", node("-1", total, 60), **PLAINTEXT)]
        claimed = groups.read(1)
    assert claimed == {1: {("a", "-1")}}
    # The socket is there still: it is not another's because it rests.
    assert groups.read(6) == claimed


def test_a_broker_that_one_client_shows_at_an_address_is_there_for_all():
    process = Process()
    one, here, there = socket(1, group="g1"), socket(2, group="g2"), socket(3, THERE, group="g2")
    counts = {one: (50, 60), here: (70, 80), there: (70, 80)}
    shown = client("a", node("1", 50, 60), **connected(1, created=2))
    alike = client("b", node("1", 70, 80), node("2", 70, 80), **connected(2, created=3))
    assert repeat(process, 5, counts, shown, alike) == {
        1: {("a", "1")}, 2: {("b", "1")}, 3: {("b", "2")}
    }  # fmt: skip


def test_a_group_larger_than_a_client_has_nodes_is_not_this_client():
    process = Process()
    sockets = [socket(number, group="g") for number in (1, 2)]
    counts = dict.fromkeys(sockets, (50, 60))
    assert repeat(process, 5, counts, client("a", node("-1", 50, 60), **PLAINTEXT)) == {}


def test_a_client_without_connections_need_not_be_any_group():
    groups = Groups()
    groups.clients[1] = groups.client("b", 70, 80, connection_count=0)
    claimed = groups.read(5)
    assert claimed == {1: {("a", "-1")}}


def test_a_group_of_which_the_page_says_nothing_may_be_no_client_of_it():
    groups = Groups()
    del groups.clients[1]
    groups.read(1)
    assert groups.process.claims.may_claim(groups.other), "the groups have not settled"
    assert groups.read(5) == {1: {("a", "-1")}}
    assert groups.process.claims.may_claim(groups.mine)
    assert not groups.process.claims.may_claim(groups.other)


def test_what_is_held_by_a_client_is_what_was_claimed_last():
    groups = Groups()
    groups.read(5)
    key = groups.clients[0].key("app")
    assert groups.process.claims.held_by(key) == [1]
    groups.process.read({groups.mine: (50, 60)})
    assert groups.process.claims.held_by(key) == []


def test_two_clients_with_one_id_share_its_nodes_between_their_groups():
    """The page shows one client with more nodes than it ever opened connections."""
    process = Process()
    one, two = socket(1, group="g1"), socket(2, THERE, group="g2")
    for total in range(50, 61):
        # 3 out, 1 in; 1 out, 4 in: no growth of one is the other's.
        mine = 3 * total, total
        others = total, 4 * total
        claimed = process.read(
            {one: mine, two: others},
            client("a", node("1", *mine), node("2", *others), **connected(1)),
        )
    assert claimed == {1: {("a", "1")}, 2: {("a", "2")}}


# ---- pools without groups ------------------------------------------------------------------------


def test_a_pool_that_has_as_many_sockets_as_all_clients_hold_is_shared_out():
    process = Process()
    one, two = socket(1), socket(2, THERE)
    clients = (
        client("a", node("-1", 50, 60), **connected(1)),
        client("b", node("-1", 70, 80), **connected(1)),
    )
    counts = {one: (50, 60), two: (70, 80)}
    assert repeat(process, 5, counts, *clients) == {1: {("a", "-1")}, 2: {("b", "-1")}}


def test_in_a_pool_with_a_socket_more_idle_nodes_say_nothing():
    """It may be a client's that is not on the page, and so may every other socket."""
    process = Process()
    sockets = {socket(1): (50, 60), socket(2, THERE): (70, 80), socket(3): (9, 9)}
    clients = (
        client("a", node("-1", 50, 60), **connected(1)),
        client("b", node("-1", 70, 80), **connected(1)),
    )
    assert repeat(process, 5, sockets, *clients) == {}


def test_a_pool_with_a_socket_that_is_no_node_is_not_shared_out():
    """So many sockets are there as the clients hold, and one of them is not theirs."""
    process = Process()
    clients = (
        client("a", node("-1", 50, 60), **connected(1)),
        client("b", node("-1", 70, 80), **connected(1)),
    )
    counts = {socket(1): (50, 60), socket(2, THERE): (500, 600)}
    assert repeat(process, 5, counts, *clients) == {}


def test_clients_that_may_have_a_socket_in_common_are_searched_together():
    one, two, three, four = (socket(number) for number in range(1, 5))
    a, b, c = row("-1", name="a"), row("-1", name="b"), row("-1", name="c")
    options = {one: [a], two: [b], three: [a, b], four: [c]}
    chain = {one: [a, b], two: [a], three: [b]}
    parts = _parts(
        {left: [Pair(left, each, PLAIN) for each in rows] for left, rows in options.items()}
    )
    assert sorted(sorted(each.cookie for each in part) for part in parts) == [[1, 2, 3], [4]]
    parts = _parts(
        {left: [Pair(left, each, PLAIN) for each in rows] for left, rows in chain.items()}
    )
    assert len(parts) == 1


def test_a_node_with_a_login_is_named_once_it_grew_twice_with_its_socket():
    process = Process()
    one, two = socket(1), socket(2, THERE)
    for number, claims in ((1, {}), (2, {}), (3, {1: {("a", "-1")}})):
        counted = 100 * number, 300 * number
        told = node("-1", *counted, requests=number, responses=number)
        claimed = process.read(
            {one: (counted[0] + 70, counted[1] + 30), two: (9, 9)},
            client("a", told, authentications=1, reauthentications=0),
        )
        assert claimed == claims


def test_in_a_pool_with_a_socket_more_a_node_in_use_has_the_one_that_grows_with_it():
    process = Process()
    one, two = socket(1), socket(2, THERE)
    for total in range(50, 56):
        claimed = process.read(
            {one: (3 * total, total), two: (70, 80)},
            client("a", node("-1", 3 * total, total), **PLAINTEXT),
        )
    assert claimed == {1: {("a", "-1")}}


def test_two_sockets_that_grow_with_one_node_are_not_named():
    process = Process()
    one, two = socket(1), socket(2, THERE)
    for total in range(50, 56):
        claimed = process.read(
            {one: (3 * total, total), two: (3 * total, total)},
            client("a", node("-1", 3 * total, total), **PLAINTEXT),
        )
    assert claimed == {}


def test_a_listener_that_was_shown_open_has_no_client_with_a_login():
    process = Process()
    one, two = socket(1), socket(2)
    for total in range(50, 56):
        process.read(
            {one: (3 * total, total), two: (170, 180)},
            client("a", node("-1", 3 * total, total), **PLAINTEXT),
            client("b", node("-1", 70, 80), authentications=1, reauthentications=0),
        )
    assert process.source.open_ends == {HERE}
    (pair,) = [
        pair for pair in process.source.alive(two)
        if pair.row.client.client_id == "b" and not pair.law.out
    ]  # fmt: skip
    assert not process.claims._may_end_at(pair, HERE)
    assert process.claims._may_end_at(pair, THERE)


# ---- librdkafka ----------------------------------------------------------------------------------


def rdkafka(name, *nodes):
    return client(name, *nodes, kind=ClientKind.PRODUCER, library=Library.LIBRDKAFKA)


def test_nodes_of_librdkafka_share_the_sockets_of_their_address_alone():
    """Idle or not: each node that is connected has one of the sockets there."""
    process = Process()
    one, two = socket(1), socket(2, THERE)
    here = {"remote_name": str(HERE), "connection_state": "UP", "connects": 1}
    there = {"remote_name": str(THERE), "connection_state": "UP", "connects": 1}
    counts = {one: (50, 60), two: (70, 80)}
    clients = (
        rdkafka("a", node("1", 50, 60, **here)), rdkafka("b", node("1", 70, 80, **there))
    )  # fmt: skip
    may_be = _by_name
    assert process_read(process, 5, counts, clients, may_be) == {1: {("a", "1")}, 2: {("b", "1")}}


def test_a_socket_more_at_an_address_leaves_idle_nodes_of_librdkafka_unnamed_there():
    process = Process()
    one, two, more = socket(1), socket(2, THERE), socket(3, THERE)
    here = {"remote_name": str(HERE), "connection_state": "UP"}
    there = {"remote_name": str(THERE), "connection_state": "UP"}
    counts = {one: (550, 560), two: (570, 580), more: (570, 580)}
    clients = (
        rdkafka("a", node("1", 50, 60, **here)), rdkafka("b", node("1", 70, 80, **there))
    )  # fmt: skip
    assert process_read(process, 5, counts, clients, _by_name) == {1: {("a", "1")}}


def _by_name(row, one):
    return row.node.remote_name == str(one.remote)


def process_read(process, times, counts, clients, may_be):
    claimed = {}
    for _ in range(times):
        claimed = process.read(counts, *clients, may_be=may_be)
    return claimed


# ---- witnesses -----------------------------------------------------------------------------------


def test_a_page_without_a_sender_says_nothing_until_its_figures_grow_with_a_socket():
    groups = Groups()
    assert groups.read(6, needs_witness=True) == {}
    for total in range(4):
        groups.counts[groups.mine] = 51 + 3 * total, 61 + total
        groups.clients[0] = groups.client("a", 51 + 3 * total, 61 + total)
        claimed = groups.read(1, needs_witness=True)
    # One that grows shows that the page is this process's, all of it.
    assert claimed == {1: {("a", "-1")}, 2: {("b", "-1")}}


@pytest.mark.parametrize(("sizes", "is_shown"), [((90,) * 8, False), (range(90, 98), True)])
def test_under_tls_growths_of_one_size_may_be_a_replicas_heartbeats(sizes, is_shown):
    process = Process()
    one = socket(1, group="g")
    reported = {"connection_count": 1, "connections_created": 1, "authentications": 1}
    total, requests = 100, 1
    counts = {}
    for size in (0, 0, 0, *sizes):
        total += size
        requests += size > 0
        counts = {one: (500 + total + 38 * requests, 4_000 + total + 38 * requests)}
        told = node("-1", total, total, requests=requests, responses=requests)
        claimed = process.read(
            counts, client("c", told, reauthentications=0, **reported), needs_witness=True
        )
    assert bool(claimed) is is_shown


def test_each_client_of_librdkafka_needs_a_witness_of_its_own():
    process = Process()
    one, two = socket(1), socket(2, THERE)
    for total in range(50, 56):
        here = node("1", 3 * total, total, remote_name=str(HERE), connection_state="UP")
        there = node("1", 570, 580, remote_name=str(THERE), connection_state="UP")
        claimed = process.read(
            {one: (3 * total, total), two: (670, 680)},
            rdkafka("a", here), rdkafka("b", there),
            needs_witness=True, may_be=_by_name,
        )  # fmt: skip
    assert claimed == {1: {("a", "1")}}


@pytest.mark.parametrize(("grows", "may_hold"), [(True, True), (False, False)])
def test_sockets_of_another_process_may_be_a_node_in_use_where_they_grow_with_it(grows, may_hold):
    process = Process()
    mine = socket(1)
    for total in range(50, 56):
        there = (3 * total, total) if grows else (400, 500)
        process.read({mine: there}, client("a", node("-1", 3 * total, total), **PLAINTEXT))
    assert process.claims.may_hold([mine]) is may_hold


def test_a_pair_that_was_never_read_may_hold_a_socket_of_another_process():
    process = Process()
    mine, late = socket(1), socket(2, opened=1_000.0)
    for total in range(50, 56):
        process.read({mine: (3 * total, total)}, client("a", node("-1", 3 * total, total)))
    (mine_only,) = process.source.clients.values()
    its_row = mine_only.rows["-1"]
    process.source.pairs[late] = {its_row: [Pair(late, its_row, PLAIN)]}
    assert process.claims.may_hold([late])
