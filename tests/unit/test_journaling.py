"""Which connections a running journal takes for the agent's own."""

from __future__ import annotations

import pytest

from exporter.config.journal import JournalKafkaSettings, JournalSettings
from exporter.config.settings import Settings
from exporter.engine.engine import Engine
from exporter.journal.journaling import Journaling
from exporter.kernel.own_connections import OWN_RECEIVE_BUFFER
from exporter.model import ClosedSocket, Owner, OwnerRung
from exporter.totals.journal_values import Place
from tests.unit.journals import LABELS
from tests.unit.sockets import BROKER, JVM, figures, kernel, reading

MARK = 2 * OWN_RECEIVE_BUFFER


class Outlet:
    """Counts the attempts that failed."""

    def __init__(self) -> None:
        self.own_failures = 0

    def count_own_failures(self, count: int) -> None:
        self.own_failures += count


def end(each, *, acked=0):
    """The end of a connection whose window looks like ours."""
    info = figures(acked - 1, 0)
    return ClosedSocket(2.0, each.cookie, each.local, BROKER, info, OWN_RECEIVE_BUFFER, 65_495)


class Told:
    """A journal with a topic, and the engine that it tells."""

    def __init__(self) -> None:
        self.settings = Settings(
            journal=JournalSettings(
                kafka=JournalKafkaSettings(bootstrap_servers="k:9092", spool_folder="/none")
            )
        )
        self.outlet = Outlet()
        place = Place(agent_id="a", agent_version="1", labels=LABELS)
        self.journaling = Journaling(self.settings, place, self.outlet)
        self.engine = Engine(self.settings)

    def poll(self, at, *sockets, closed=(), owners=()):
        """Poll as the agent does; tell which connections there are."""
        read = kernel(at, *sockets, closed=closed)
        outcome = self.engine.poll(*self.journaling.without_own(read, dict(owners), self.engine))
        held = dict.fromkeys(each.cookie for each in outcome.changes.vanished)
        self.engine.settle_vanished(held, at, events_complete=True)
        return [each.cookie for each in self.engine.connections]

    @property
    def counted(self):
        totals = self.engine.totals
        return sum(totals.opened.values()), sum(totals.closed.values())


@pytest.fixture
def told():
    return Told()


def test_an_end_that_no_poll_met_is_told_by_its_window(told):
    told.poll(1.0)
    told.poll(2.0, closed=[end(reading(7)), end(reading(8), acked=500)])
    assert told.counted == (0, 0)
    assert told.outlet.own_failures == 1


def test_an_own_one_that_ends_within_the_poll_that_meets_it_leaves_nothing(told):
    own = reading(7, at=1.0, receive_buffer=MARK)
    assert told.poll(1.0, own, closed=[end(own, acked=500)]) == []
    for at in (2.0, 3.0, 4.0):
        assert told.poll(at) == []
    assert told.counted == (0, 0)


@pytest.mark.parametrize("found", [True, False])
def test_a_socket_of_our_size_is_its_processs_where_that_is_found(told, found):
    """Another agent's connections are not hidden, and ours are no nameless client's."""
    owner = JVM if found else Owner(key="uid:0", rung=OwnerRung.UID, name="uid:0")
    marked = reading(7, at=1.0, receive_buffer=MARK)
    assert told.poll(1.0, marked, owners=[(7, owner)]) == ([7] if found else [])


@pytest.mark.parametrize("polls", [1, 2])
def test_a_client_whose_window_is_like_ours_is_still_a_client(told, polls):
    client = reading(7, at=1.0, receive_buffer=20_000)
    told.poll(0.5)
    if polls > 1:
        assert told.poll(1.0, client, owners=[(7, JVM)]) == [7]
        told.poll(2.0, closed=[end(client, acked=500)])
    else:
        told.poll(2.0, client, closed=[end(client, acked=500)], owners=[(7, JVM)])
    assert told.counted == (1, 1)
    assert told.outlet.own_failures == 0
