"""Names that clients give, beside the brokers that the operator named."""

from __future__ import annotations

import time

from exporter.brokers.directory import Directory
from exporter.brokers.surroundings import NAMES_OF_ONE_SENDER, Surroundings
from exporter.config.settings import BrokerSettings, KnownBroker, Settings

KNOWN = KnownBroker(id=1, host="localhost", port=9092)


def told(surroundings, holds):
    """Tell a directory until something holds, as polls do."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        surroundings.tell(Directory())
        if holds():
            return True
        time.sleep(0.02)
    return False


def test_a_name_that_a_client_goes_on_giving_is_resolved_beside_a_thousand_dead_ones():
    made = Surroundings(Settings(brokers=BrokerSettings(known=(KNOWN,))), time.time)
    for number in range(1000):
        made.addresses_of(f"x{number}.invalid", ("http", 666))
    given = "localhost.localdomain"
    made.start()
    try:
        assert told(made, lambda: made.addresses_of("localhost", ("operator", 1)))
        made.addresses_of(given, ("http", 7))
        assert given in made.client_names
        invented = [name for name in made.client_names if name.endswith(".invalid")]
        assert len(invented) == NAMES_OF_ONE_SENDER
    finally:
        made.stop()
