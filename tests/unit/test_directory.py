"""Which broker is where, and when an address is stale."""

from __future__ import annotations

import pytest

from exporter.brokers.directory import Directory
from exporter.model import Endpoint

OLD = Endpoint("10.2.0.1", 9092)
NEW = Endpoint("10.2.0.11", 9092)
OTHER = Endpoint("10.2.0.2", 9092)


@pytest.fixture
def directory():
    """Two clients that reach broker 2 at one address: they are of one cluster."""
    directory = Directory()
    for client in ("a", "b"):
        directory.learn(client, 2, OTHER, 10.0)
    directory.learn("a", 1, OLD, 10.0)
    return directory


def test_an_address_is_stale_once_somebody_reached_the_broker_elsewhere(directory):
    assert directory.stale_reason("a", 1, OLD, 10.0) is None
    directory.learn("b", 1, NEW, 50.0)
    assert str(NEW) in directory.stale_reason("a", 1, OLD, 10.0)
    assert directory.stale_reason("b", 1, NEW, 50.0) is None


def test_an_address_that_is_connected_to_again_is_not_stale(directory):
    """Two records of one name: the broker has both addresses."""
    directory.learn("b", 1, NEW, 50.0)
    directory.learn("b", 1, OLD, 60.0)
    assert directory.stale_reason("a", 1, OLD, 10.0) is None
    assert directory.stale_reason("b", 1, NEW, 50.0) is None


def test_an_address_of_another_broker_is_not_out_of_use(directory):
    directory.learn("a", 1, NEW, 50.0)
    assert directory.stale_reason("a", 1, OTHER, 20.0) is None


def test_another_port_is_another_listener(directory):
    directory.learn("b", 1, Endpoint(NEW.address, 9093), 50.0)
    assert directory.stale_reason("a", 1, OLD, 10.0) is None


def test_another_cluster_says_nothing(directory):
    directory.learn("stranger", 1, NEW, 50.0)
    assert directory.stale_reason("a", 1, OLD, 10.0) is None


def test_the_configuration_is_right_at_once(directory):
    directory.set_known("configuration", {1: frozenset({NEW}), 2: frozenset({OTHER})})
    assert "is known to be at" in directory.stale_reason("a", 1, OLD, 10.0)
    directory.set_known("configuration", {1: frozenset({NEW, OLD}), 2: frozenset({OTHER})})
    directory.learn("b", 1, NEW, 50.0)
    assert directory.stale_reason("a", 1, OLD, 10.0) is None


def test_who_is_not_known_is_not_stale(directory):
    assert directory.stale_reason("nobody", 1, OLD, 10.0) is None
    directory.forget("a")
    assert directory.stale_reason("a", 1, OLD, 10.0) is None


def test_a_broker_is_known_by_its_address_unless_two_clusters_disagree(directory):
    assert directory.broker_at(OLD) == 1
    assert directory.broker_at(NEW) is None
    directory.learn("stranger", 7, OLD, 50.0)
    assert directory.broker_at(OLD) is None


def test_the_order_of_learning_does_not_matter():
    facts = [("a", 1, OLD, 10.0), ("b", 1, NEW, 50.0), ("a", 2, OTHER, 10.0), ("b", 2, OTHER, 9.0)]
    answers = set()
    for turn in range(len(facts)):
        directory = Directory()
        for fact in facts[turn:] + facts[:turn]:
            directory.learn(*fact)
        answers.add(directory.stale_reason("a", 1, OLD, 10.0))
    assert len(answers) == 1
    assert None not in answers


def test_places_are_known_by_their_address_alone(directory):
    second = Endpoint(OLD.address, 9093)
    directory.set_known("configuration", {1: frozenset({second})})
    assert directory.endpoints_at(OLD.address) == {OLD, second}
    assert directory.endpoints_at("10.9.9.9") == frozenset()
