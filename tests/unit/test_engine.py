"""The core put together: what it counts of connections that came and went."""

from __future__ import annotations

import pytest

from exporter.core.engine import Engine
from exporter.model import ClosedBy, Endpoint
from exporter.settings import Settings
from tests.unit.sockets import BROKER, end, figures, kernel, owned, reading

# As the kernel tells of them (tests/unit/test_tracker.py).
FIN = figures(bytes_acked=2, bytes_received=1, bytes_sent=0, segments_out=4, segments_in=2)
TURNED_AWAY = figures(bytes_acked=1, bytes_sent=24, segments_out=3, segments_in=2)
NOT_THROUGH = figures(bytes_acked=0, segments_out=1, segments_in=1)
WIPED = figures(bytes_acked=0, segments_out=0, segments_in=0, data_segments_in=0)


@pytest.mark.parametrize(
    ("info", "port", "by", "probes", "failures"),
    [
        pytest.param(FIN, BROKER.port, ClosedBy.CLIENT, 1, 0, id="a probe"),
        pytest.param(WIPED, 0, ClosedBy.CLIENT, 1, 0, id="a probe that resets"),
        pytest.param(TURNED_AWAY, BROKER.port, ClosedBy.BROKER, 0, 0, id="the broker resets it"),
        pytest.param(NOT_THROUGH, BROKER.port, ClosedBy.REFUSED, 0, 1, id="refused"),
    ],
)
def test_a_health_check_hangs_up_itself_and_a_client_that_is_turned_away_is_none(
    info, port, by, probes, failures
):
    engine = Engine(Settings())
    client = reading(1)
    engine.poll(kernel(100.0, client), owned(client))
    event = end(reading(2), 101.0, info, remote=Endpoint(BROKER.address, port))
    engine.poll(kernel(101.0, client, closed=[event]), owned(client))
    totals = engine.ledger.totals()
    assert {each for (_key, each), count in totals.closed.items() if count} == {by}
    assert sum(totals.probes.values()) == probes
    assert sum(totals.connect_failures.values()) == failures


def test_a_probe_that_a_poll_met_hung_up_itself_too():
    engine = Engine(Settings())
    silent = reading(1, info=figures())
    engine.poll(kernel(99.0), {})
    engine.poll(kernel(100.0, silent), owned(silent))
    event = end(silent, 101.0, WIPED, remote=Endpoint(BROKER.address, 0))
    engine.poll(kernel(101.0, closed=[event]), {})
    totals = engine.ledger.totals()
    assert [by for (_key, by), count in totals.closed.items() if count] == [ClosedBy.CLIENT]
    assert totals.probes == {str(BROKER): 1}
