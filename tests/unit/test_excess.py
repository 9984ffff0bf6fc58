"""Excess: only where nothing else can explain a connection."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.core.excess import find_excess
from exporter.core.tracker import TrackedConnection
from exporter.model import (
    Attribution,
    ClientKey,
    ClientKind,
    Confidence,
    Endpoint,
    Library,
    NodeReading,
    Role,
    TcpState,
)
from exporter.settings import ClientRule
from tests.unit.sockets import JVM, figures, reading

NOW = 1_000.0


class Joined:
    """What the join knows: roles by cookie, and which of the others may still be claimed."""

    def __init__(self, roles, claimable=(), outlived=()):
        self.claimable = set(claimable)
        self.outlived = set(outlived)
        self.attributions = {
            cookie: Attribution(
                client=ClientKey("page", ClientKind.PRODUCER, "p"),
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


def held(*cookies, age=60.0, owner=JVM, idle=1.0, **changes):
    return {
        cookie: TrackedConnection(
            reading=reading(cookie, **changes),
            owner=owner,
            opened_at=NOW - age,
            age_is_exact=True,
            first_for_owner=False,
            last_activity_at=NOW - idle * cookie,
        )
        for cookie in cookies
    }


def excess(connections, joined, rule=None):
    return find_excess(connections, joined, lambda _attribution, _owner: rule, 30.0, NOW)


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


@pytest.mark.parametrize(
    ("rule", "count", "many"),
    [
        pytest.param(ClientRule(instances=1), 3, 0, id="data, coordinator, a leftover"),
        pytest.param(ClientRule(instances=1), 4, 1, id="one more than one client can hold"),
        pytest.param(ClientRule(instances=2), 6, 0, id="two clients"),
        pytest.param(ClientRule(connections_per_broker=1), 3, 2, id="one is meant to be"),
        pytest.param(ClientRule(connections_per_broker=5), 5, 0, id="franz-go"),
        pytest.param(ClientRule(), 9, 0, id="a rule about something else"),
    ],
)
def test_the_operator_says_how_many_are_meant_to_be(rule, count, many):
    found = excess(held(*range(1, count + 1)), Joined({}), rule)
    assert len(found) == many
    # The ones that are idle for longest.
    assert set(found) == set(range(count - many + 1, count + 1))


def test_a_known_leftover_counts_for_nothing():
    roles = {1: Role.DATA, 2: Role.COORDINATOR, 3: Role.BOOTSTRAP}
    assert excess(held(1, 2, 3), Joined(roles), ClientRule(instances=1)) == {}


def test_the_order_does_not_matter():
    connections = held(*range(1, 8))
    backwards = dict(reversed(connections.items()))
    rule = ClientRule(instances=1)
    assert excess(connections, Joined({}), rule) == excess(backwards, Joined({}), rule)
