"""How many connections a client should hold: the table of the clients' own sources."""

from __future__ import annotations

import pytest

from exporter.connections.expected import RULES, ClientUse, default_idle_limit, expected_by_broker
from exporter.model import ClientKind, Library, Role

JAVA, NATIVE = Library.JAVA, Library.LIBRDKAFKA


def use(library, *roles, kind=ClientKind.PRODUCER, learned=True, configured=None):
    return ClientUse(library, kind, frozenset(roles), learned, configured)


@pytest.mark.parametrize(
    ("what", "count"),
    [
        pytest.param(use(JAVA, Role.DATA), 1, id="a producer, a broker that it sends to"),
        pytest.param(use(JAVA, Role.DATA, Role.BOOTSTRAP), 1, id="... bootstrap is superseded"),
        pytest.param(use(JAVA, Role.BOOTSTRAP, learned=False), 1, id="S1: bootstrap, until then"),
        pytest.param(use(JAVA, Role.BOOTSTRAP), 0, id="bootstrap alone is not needed any more"),
        pytest.param(use(JAVA, Role.DATA, Role.COORDINATOR), 2, id="S7: data and coordinator"),
        pytest.param(use(JAVA, Role.ADMIN), 1, id="an admin client"),
        pytest.param(use(NATIVE, Role.DATA, Role.TRANSACTION), 2, id="S14: librdkafka has its own"),
        pytest.param(use(NATIVE, Role.COORDINATOR), 1, id="librdkafka's coordinator"),
        pytest.param(use(NATIVE, Role.ADMIN), 1, id="librdkafka's admin client"),
        pytest.param(use(JAVA, Role.UNKNOWN), 0, id="nothing is expected of what is not known"),
        pytest.param(use(JAVA, Role.DATA, configured=5), 5, id="the operator knows better"),
    ],
)
def test_the_count_and_a_reason_for_each(what, count):
    expectation = expected_by_broker(what)
    assert expectation.count == count
    for rule, reason in expectation.rules:
        assert RULES[rule] == reason
    if what.configured is None:
        assert len(expectation.rules) == count


@pytest.mark.parametrize("library", Library)
@pytest.mark.parametrize("role", Role)
def test_every_rule_that_is_named_exists(library, role):
    for learned in (True, False):
        for rule, _reason in expected_by_broker(use(library, role, learned=learned)).rules:
            assert rule in RULES


@pytest.mark.parametrize(
    ("library", "kind", "seconds"),
    [
        (JAVA, ClientKind.PRODUCER, 540.0),
        (JAVA, ClientKind.CONSUMER, 540.0),
        (JAVA, ClientKind.ADMIN, 300.0),
        (NATIVE, ClientKind.CONSUMER, 0.0),
        (Library.UNKNOWN, ClientKind.UNKNOWN, None),
        (JAVA, ClientKind.UNKNOWN, None),
    ],
)
def test_idle_limits_are_the_libraries_defaults(library, kind, seconds):
    assert default_idle_limit(library, kind) == seconds
