"""How a client began: from the agent's own sight, or as far as nothing can be gone yet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.connections.kernel_clients import Clients
from exporter.model import ClientGroup, Confidence, GroupsReading, Role
from tests.unit.test_signs import NOW, quiet

GROUP = ClientGroup(key="pid:41#1", number=1)


def sign_of_first(*, at=60.0, is_whole=False, opened_after=None):
    """The sign of the first of two connections of a client, opened `at` seconds ago."""
    members = {1: quiet(1, 1, at=at), 2: quiet(2, 2, at=at - 1)}
    for each in members.values():
        each.group = replace(GROUP, is_whole=is_whole)
        if opened_after is not None:
            each.opened_after = opened_after
    clients = Clients()
    clients.update(members, {}, GroupsReading(), NOW)
    sign = clients.sign(1)
    return None if sign is None else (sign.role, sign.confidence)


@pytest.mark.parametrize(
    ("client", "sign"),
    [
        pytest.param({"is_whole": True}, Confidence.STRONG, id="the agent saw it begin"),
        pytest.param({}, Confidence.WEAK, id="it is young: none can be closed for idleness yet"),
        pytest.param({"at": 400.0}, None, id="it is old: its first may be closed"),
        pytest.param({"opened_after": float("-inf")}, None, id="its age is not known"),
    ],
)
def test_the_first_connection_of_a_client(client, sign):
    assert sign_of_first(**client) == (None if sign is None else (Role.BOOTSTRAP, sign))


def test_a_client_that_lost_a_connection_keeps_what_was_known_of_its_beginning():
    members = {1: quiet(1, 1, at=60), 2: quiet(2, 2, at=59), 3: quiet(3, 3, at=58)}
    for each in members.values():
        each.group = GROUP
    clients = Clients()
    clients.update(members, {}, GroupsReading(), NOW)
    clients.update({1: members[1], 2: members[2]}, {}, GroupsReading(), NOW + 10)
    sign = clients.sign(1)
    assert sign is not None
    assert sign.role is Role.BOOTSTRAP
