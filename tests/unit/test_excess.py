"""Excess: only where nothing else can explain a connection."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.config.settings import ClientRule
from exporter.connections.excess import find_excess
from exporter.connections.seniority import Seniority
from exporter.connections.tracker import TrackedConnection
from exporter.model import (
    Attribution,
    Cause,
    ClientGroup,
    ClientKey,
    ClientKind,
    ClientThreads,
    Confidence,
    Endpoint,
    Library,
    NodeReading,
    Role,
    TcpState,
)
from tests.unit.sockets import BROKER, JVM, figures, reading

NOW = 1_000.0


class Joined:
    """What the join knows: roles by cookie, and which of the others may still be claimed.

    All are of the client p, unless `ids` names another by cookie.
    """

    def __init__(self, roles, claimable=(), outlived=(), ids=None, kind=ClientKind.PRODUCER):
        self.claimable = set(claimable)
        self.outlived = set(outlived)
        self.attributions = {
            cookie: Attribution(
                client=ClientKey("page", kind, (ids or {}).get(cookie, "p")),
                node=NodeReading(
                    node_id="1", role=role, broker_id=1, outgoing_bytes=1, incoming_bytes=1
                ),
                library=Library.JAVA,
                confidence=Confidence.EXACT,
                evidence=("equal bytes",),
            )
            for cookie, role in roles.items()
        }

    def is_claimable(self, cookie):
        return cookie in self.claimable

    def is_claimed(self, cookie):
        return cookie in self.attributions and cookie not in self.outlived


def held(*cookies, age=60.0, owner=JVM, idle=1.0, group=None, **changes):
    """Connections opened in the order of their cookies, a tenth of a second apart, all in use."""
    return {
        cookie: TrackedConnection(
            reading=reading(cookie, **changes),
            owner=owner,
            opened_at=NOW - age + cookie / 10,
            age_is_exact=True,
            first_for_owner=False,
            last_activity_at=NOW - idle,
            state_since=NOW - age,
            group=None if group is None else ClientGroup(key=f"{owner.key}#{group}", number=group),
        )
        for cookie in cookies
    }


def excess(connections, joined, rule=None, threads=None, clients=None):
    processes = (clients or Seniority()).sort(connections.values(), joined.attributions)
    return find_excess(
        processes.values(), joined, lambda _attribution, _owner: rule, 30.0, NOW, threads
    )


def test_a_connection_that_no_client_claims_beside_one_that_is_claimed_is_excess():
    found = excess(held(1, 2), Joined({1: Role.DATA}))
    assert list(found) == [2]
    assert "no node of 'p' claims it" in found[2].reason


def test_a_connection_whose_node_is_another_one_since_is_excess():
    roles = {1: Role.DATA, 2: Role.DATA}
    assert excess(held(1, 2), Joined(roles)) == {}
    assert list(excess(held(1, 2), Joined(roles, outlived=[2]))) == [2]
    # Of three seconds ago, or with a node that it may yet turn out to be, it is not.
    assert excess(held(1, 2, age=3.0), Joined(roles, outlived=[2])) == {}
    assert excess(held(1, 2), Joined(roles, outlived=[2], claimable=[2])) == {}


@pytest.mark.parametrize(
    ("others", "joined"),
    [
        pytest.param(held(2), Joined({}), id="no client shows its metrics"),
        pytest.param(held(2, age=29.0), Joined({1: Role.DATA}), id="too young"),
        pytest.param(held(2), Joined({1: Role.DATA}, claimable=[2]), id="it may yet be claimed"),
        pytest.param(held(2, info=figures(0, 0)), Joined({1: Role.DATA}), id="it has not spoken"),
        pytest.param(
            held(2, remote=Endpoint("10.2.0.2", 9092)), Joined({1: Role.DATA}), id="elsewhere"
        ),
        pytest.param(
            held(2, owner=replace(JVM, key="9:1")), Joined({1: Role.DATA}), id="another process"
        ),
        pytest.param(
            held(2, tcp_state=TcpState.CLOSE_WAIT), Joined({1: Role.DATA}), id="half closed"
        ),
        pytest.param(held(2), Joined({1: Role.DATA, 2: Role.DATA}), id="claimed as well"),
    ],
)
def test_what_can_be_explained_is_no_excess(others, joined):
    assert excess(held(1) | others, joined) == {}


def test_a_ghost_is_a_ghost():
    connections = held(1, 2)
    connections[2].ghost = True
    assert excess(connections, Joined({1: Role.DATA})) == {}


ONE = ClientRule(instances=1)
OTHER_BROKER = Endpoint("10.2.0.2", 9092)
THIRD_BROKER = Endpoint("10.2.0.3", 9092)


def producers(count, brokers=(BROKER, OTHER_BROKER, THIRD_BROKER), **changes):
    """So many clients that the kernel shows as groups, each with a connection to each broker."""
    connections = {}
    for number in range(1, count + 1):
        for place, remote in enumerate(brokers):
            cookie = 10 * number + place
            connections |= held(cookie, remote=remote, group=number, **changes)
    return connections


@pytest.mark.parametrize("ids", [True, False], ids=["by their metrics", "by the kernel's groups"])
def test_one_instance_is_one_client_and_the_later_ones_are_too_many(ids):
    connections = producers(6)
    joined = Joined({})
    if ids:
        for tracked in connections.values():
            tracked.group = None
        names = {cookie: f"worker-{cookie // 10}" for cookie in connections}
        joined = Joined(dict.fromkeys(connections, Role.DATA), ids=names)
    found = excess(connections, joined, ONE)
    assert set(found) == {cookie for cookie in connections if cookie >= 20}
    assert found[20].reason == "6 clients in this process, the configuration allows 1"


def test_two_producers_of_one_instance_are_one_too_many():
    assert set(excess(producers(2), Joined({}), ONE)) == {20, 21, 22}
    assert excess(producers(2), Joined({}), ClientRule(instances=2)) == {}


def test_excess_does_not_follow_activity():
    connections = producers(3)
    before = excess(connections, Joined({}), ONE)
    for cookie, tracked in connections.items():
        tracked.last_activity_at = NOW - 50.0 * (cookie < 20)
    assert excess(connections, Joined({}), ONE) == before


def test_a_client_stays_the_oldest_when_its_first_connection_has_ended():
    connections = held(1, 9, group=1) | held(5, group=2)
    clients = Seniority()
    assert set(excess(connections, Joined({}), ONE, clients=clients)) == {5}
    del connections[1]
    assert set(excess(connections, Joined({}), ONE, clients=clients)) == {5}
    assert set(excess(connections, Joined({}), ONE)) == {9}


def test_what_a_client_opens_twice_is_one_client():
    bootstrap_and_data = held(1, 2, 3, group=1)
    assert excess(bootstrap_and_data, Joined({}), ONE) == {}


def test_a_group_and_the_metrics_of_one_of_its_connections_are_one_client():
    connections = held(1, 2, group=1) | held(3, group=2)
    joined = Joined({2: Role.DATA, 3: Role.DATA}, claimable=[1])
    assert len(Seniority().sort(connections.values(), joined.attributions)["41:1000"].clients) == 1
    joined = Joined({2: Role.DATA, 3: Role.DATA}, claimable=[1], ids={3: "q"})
    assert set(excess(connections, joined, ONE)) == {3}


def test_a_client_is_not_too_many_before_it_has_been_there_for_a_while():
    young = producers(1) | held(90, age=29.0, group=9)
    assert excess(young, Joined({}), ONE) == {}
    assert set(excess(producers(1) | held(90, age=31.0, group=9), Joined({}), ONE)) == {90}


NATIVE = replace(JVM, library=Library.LIBRDKAFKA)


@pytest.mark.parametrize(
    ("rule", "count", "many"),
    [
        pytest.param(ONE, 2, 0, id="data and a coordinator"),
        pytest.param(ONE, 3, 1, id="one more than one client can hold"),
        pytest.param(ClientRule(instances=2), 4, 0, id="two consumers"),
        pytest.param(ClientRule(connections_per_broker=1), 3, 2, id="one is meant to be"),
        pytest.param(ClientRule(connections_per_broker=5), 5, 0, id="franz-go"),
        pytest.param(ClientRule(), 9, 0, id="a rule about something else"),
    ],
)
def test_without_groups_and_metrics_the_order_of_opening_decides(rule, count, many):
    found = excess(held(*range(1, count + 1), owner=NATIVE), Joined({}), rule)
    assert set(found) == set(range(count - many + 1, count + 1))


def test_a_coordinator_is_to_one_broker_only():
    connections = held(1, 2, owner=NATIVE) | held(3, 4, owner=NATIVE, remote=OTHER_BROKER)
    assert set(excess(connections, Joined({}), ONE)) == {4}


def test_a_process_whose_threads_show_as_many_clients_as_are_meant_has_none_too_many():
    connections = held(1, 2, 3, owner=NATIVE)
    assert excess(connections, Joined({}), ONE, {NATIVE.key: ClientThreads(librdkafka=1)}) == {}
    assert excess(connections, Joined({}), ONE, {NATIVE.key: ClientThreads(librdkafka=3)})


def test_a_jvm_without_a_consumer_needs_no_coordinator():
    threads = {JVM.key: ClientThreads(producers=2)}
    assert set(excess(held(1, 2), Joined({}), ONE, threads)) == {2}
    assert excess(held(1, 2), Joined({}), ONE) == {}


def test_what_may_be_a_bootstrap_connection_is_not_counted():
    unused = held(4, 5, 6, idle=60.0)
    assert excess(held(1, 2) | unused, Joined({}), ONE) == {}


def test_an_unknown_library_may_hold_two_by_design():
    unknown = replace(JVM, library=Library.UNKNOWN)
    assert excess(held(1, 2, 3, owner=unknown), Joined({}), ONE) == {}
    assert set(excess(held(1, 2, 3, 4, owner=unknown), Joined({}), ONE)) == {4}


def test_a_known_leftover_counts_for_nothing():
    roles = {1: Role.DATA, 2: Role.COORDINATOR, 3: Role.BOOTSTRAP}
    assert excess(held(1, 2, 3), Joined(roles), ONE) == {}


def test_the_twin_of_a_client_id_is_excess_with_all_that_it_holds():
    """One of its connections can be no node of the visible client: then none of them is."""
    connections = held(1, 2, group=1) | held(3, group=2) | held(4, group=2, remote=OTHER_BROKER)
    joined = Joined({1: Role.DATA, 2: Role.BOOTSTRAP}, claimable=[4])
    found = excess(connections, joined)
    assert set(found) == {3, 4}
    assert {each.cause for each in found.values()} == {Cause.UNCLAIMED}


def test_the_order_does_not_matter():
    connections = producers(7)
    backwards = dict(reversed(connections.items()))
    assert excess(connections, Joined({}), ONE) == excess(backwards, Joined({}), ONE)
