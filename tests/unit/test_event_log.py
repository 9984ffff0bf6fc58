from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.commands.history import event_lines
from exporter.config.settings import Settings
from exporter.engine.engine import Engine
from exporter.model import TcpState
from exporter.totals.event_log import MOST_EVENTS
from exporter.web.history_document import events_document
from tests.unit.payloads import PAYLOADS
from tests.unit.snapshots import snapshot
from tests.unit.sockets import end, figures, kernel, owned, reading


def kinds(engine):
    return [(each.kind, each.cookie, each.before, each.after) for each in engine.log.events]


def test_a_connection_s_life_is_remembered():
    engine = Engine(Settings())
    engine.poll(kernel(99.0), {})
    opening = reading(1, at=100.0, tcp_state=TcpState.SYN_SENT, info=None)
    engine.poll(kernel(100.0, opening), owned(opening))
    half = replace(reading(1, at=130.0, info=figures(500, 700)), tcp_state=TcpState.CLOSE_WAIT)
    engine.poll(kernel(130.0, half), owned(half))
    engine.poll(kernel(131.0, closed=[end(half, 131.0, figures(500, 700))]), {})
    found = kinds(engine)
    assert found[0] == ("opened", 1, None, "connecting")
    assert found[1] == ("class", 1, "connecting", "half_closed")
    assert found[-1] == ("closed", 1, "half_closed", None)
    assert "open for" in engine.log.events[-1].detail


def test_what_was_open_before_the_agent_was_found_not_opened():
    engine = Engine(Settings())
    old = reading(1)
    engine.poll(kernel(100.0, old), owned(old))
    assert engine.log.events[0].kind == "found"


def test_nothing_happened_nothing_told():
    engine = Engine(Settings())
    same = reading(1)
    engine.poll(kernel(100.0, same), owned(same))
    before = engine.log.events
    engine.poll(kernel(101.0, same), owned(same))
    assert engine.log.events is before


def test_clients_that_connect_for_each_request_take_no_more_room():
    engine = Engine(Settings())
    for number in range(MOST_EVENTS + 100):
        each = reading(number + 1, at=100.0 + number)
        engine.poll(kernel(100.0 + number, each), owned(each))
        engine.poll(kernel(100.5 + number, closed=[end(each, 100.5 + number, figures())]), {})
    assert len(engine.log.events) == MOST_EVENTS


def test_events_are_lines_with_wall_times():
    engine = Engine(Settings())
    old = reading(1)
    engine.poll(kernel(100.0, old), owned(old))
    snap = snapshot()
    history = replace(snap.history, events=engine.log.events)
    document = events_document(replace(snap, at=100.0, history=history))
    (line,) = event_lines(document["events"])
    assert line.startswith("2026-01-01 00:00:00 found unknown")
    assert "java" in line
    assert "-> 10.2.0.1:9092" in line


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_name_controls_the_terminal(payload):
    names = ("time", "event", "process", "client_id", "local", "broker", "class", "detail")
    (line,) = event_lines([dict.fromkeys(names, payload)])
    assert line.isprintable()
