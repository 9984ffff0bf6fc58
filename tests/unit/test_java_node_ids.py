"""What a client's name for a node says of it."""

from __future__ import annotations

import pytest

from exporter.clients.node_ids import HIGHEST_BROKER_ID, parse_node_id, unquoted
from exporter.model import ClientKind, Role

PRODUCER, CONSUMER = ClientKind.PRODUCER, ClientKind.CONSUMER


@pytest.mark.parametrize(
    ("raw", "kind", "expected"),
    [
        pytest.param("node--1", PRODUCER, ("-1", Role.BOOTSTRAP, None), id="bootstrap"),
        pytest.param("-12", CONSUMER, ("-12", Role.BOOTSTRAP, None), id="bootstrap-bare"),
        pytest.param("node-0", PRODUCER, ("0", Role.DATA, 0), id="broker-zero"),
        pytest.param("node-17", CONSUMER, ("17", Role.DATA, 17), id="broker"),
        pytest.param("node-3", ClientKind.ADMIN, ("3", Role.ADMIN, 3), id="admin"),
        pytest.param("node-3", ClientKind.CONNECT, ("3", Role.ADMIN, 3), id="connect-membership"),
        pytest.param("node-3", ClientKind.UNKNOWN, ("3", Role.DATA, 3), id="unknown-kind"),
        pytest.param(
            "node-2147483647", CONSUMER, ("2147483647", Role.COORDINATOR, 0), id="coordinator-of-0"
        ),
        pytest.param(
            "node-2147483646", CONSUMER, ("2147483646", Role.COORDINATOR, 1), id="coordinator-of-1"
        ),
        pytest.param("node-+0", CONSUMER, ("+0", Role.COORDINATOR, 0), id="coordinator-4.4"),
        pytest.param('"node-+1"', CONSUMER, ("+1", Role.COORDINATOR, 1), id="quoted"),
        pytest.param("+7", ClientKind.CONNECT, ("+7", Role.COORDINATOR, 7), id="connect"),
        pytest.param("node-+2", PRODUCER, ("+2", Role.TRANSACTION, 2), id="producer-has-no-group"),
        pytest.param(
            "node-coordinator-2",
            CONSUMER,
            ("coordinator-2", Role.COORDINATOR, 2),
            id="kafka-python",
        ),
        pytest.param(
            "node-bootstrap-0",
            CONSUMER,
            ("bootstrap-0", Role.BOOTSTRAP, None),
            id="kafka-python-bootstrap",
        ),
        pytest.param("node-", CONSUMER, ("", Role.UNKNOWN, None), id="empty"),
        pytest.param("node-x", CONSUMER, ("x", Role.UNKNOWN, None), id="text"),
        pytest.param("node-1.0", CONSUMER, ("1.0", Role.UNKNOWN, None), id="decimal"),
        pytest.param("node-++1", CONSUMER, ("++1", Role.UNKNOWN, None), id="two-marks"),
        pytest.param("node-\u0663", CONSUMER, ("\u0663", Role.UNKNOWN, None), id="other-digits"),
        pytest.param("node-1\n", CONSUMER, ("1\n", Role.UNKNOWN, None), id="newline"),
        pytest.param(
            "node-2147483648", CONSUMER, ("2147483648", Role.UNKNOWN, None), id="beyond-an-int"
        ),
        pytest.param(
            "node-" + "9" * 5000, CONSUMER, ("9" * 5000, Role.UNKNOWN, None), id="endless"
        ),
    ],
)
def test_a_node_id_tells_role_and_broker(raw, kind, expected):
    assert expected == parse_node_id(raw, kind)


def test_the_boundary_between_a_high_broker_and_a_coordinator():
    highest = parse_node_id(f"node-{HIGHEST_BROKER_ID}", CONSUMER)
    lowest = parse_node_id(f"node-{HIGHEST_BROKER_ID + 1}", CONSUMER)
    assert (str(HIGHEST_BROKER_ID), Role.DATA, HIGHEST_BROKER_ID) == highest
    assert (str(HIGHEST_BROKER_ID + 1), Role.COORDINATOR, HIGHEST_BROKER_ID) == lowest


def test_a_broker_id_made_of_a_private_address_is_a_broker():
    ten_one_two_three = 10 * 2**24 + 1 * 2**16 + 2 * 2**8 + 3
    assert parse_node_id(f"node-{ten_one_two_three}", CONSUMER)[1:] == (
        Role.DATA,
        ten_one_two_three,
    )


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param("plain", "plain", id="plain"),
        pytest.param('"a b"', "a b", id="quoted"),
        pytest.param(r'"say \"hi\"\, \*\?\\"', r'say "hi", *?' + "\\", id="escapes"),
        pytest.param(r'"two\nlines"', "two\nlines", id="newline"),
        pytest.param('"', '"', id="one-quote"),
        pytest.param('"open', '"open', id="not-closed"),
        pytest.param("", "", id="empty"),
    ],
)
def test_an_object_name_is_unquoted(raw, expected):
    assert expected == unquoted(raw)
