"""The clients' metrics on their way in: what the poll cannot take is lost, and counted."""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
import threading
import time
from pathlib import Path

import pytest

from exporter.clients.inputs import MOST_CLIENTS_AND_NODES, MOST_WAITING, MOST_WAITING_NODES, Inputs
from exporter.config.settings import SourceSettings
from exporter.errors import SourceDecodeError

NOW = 1_000.0


class Clock:
    now = NOW

    def __call__(self):
        return self.now


DOCUMENT = (
    Path(__file__).parents[1] / "golden" / "metrics" / "librdkafka-orders.json"
).read_bytes()


@pytest.fixture
def inputs():
    made = Inputs(SourceSettings(), (), lambda: None, lambda: NOW, lambda: NOW)
    yield made
    made.stop()


def status(inputs):
    [status] = inputs.statuses(NOW)
    return status


def test_nothing_is_dropped_while_the_poll_takes_what_comes(inputs):
    for _ in range(3):
        for _ in range(MOST_WAITING):
            inputs.accept_statistics(DOCUMENT)
        assert len(inputs.take()) == MOST_WAITING
    assert (status(inputs).reads, status(inputs).dropped) == (3 * MOST_WAITING, 0)


def test_what_the_poll_cannot_take_is_counted_and_the_rest_comes_in(inputs):
    for _ in range(MOST_WAITING + 7):
        inputs.accept_statistics(DOCUMENT)
    assert (status(inputs).up, status(inputs).dropped) == (True, 7)
    assert len(inputs.take()) == MOST_WAITING
    inputs.accept_statistics(DOCUMENT)
    assert len(inputs.take()) == 1
    assert status(inputs).dropped == 7


def test_what_is_newer_than_the_look_waits_for_the_next_one():
    now = [NOW]
    inputs = Inputs(SourceSettings(), (), lambda: None, lambda: now[0], lambda: now[0])
    inputs.accept_statistics(document("old"))
    now[0] += 1.0
    inputs.accept_statistics(document("new"))
    assert [reading.clients[0].client_id for reading in inputs.take(NOW + 0.5)] == ["old"]
    assert [reading.clients[0].client_id for reading in inputs.take(NOW + 1.5)] == ["new"]
    assert inputs.take() == []
    inputs.stop()


def test_what_is_no_statistics_is_an_error_and_not_dropped(inputs):
    with pytest.raises(SourceDecodeError):
        inputs.accept_statistics(b"{")
    assert (status(inputs).errors, status(inputs).dropped) == (1, 0)


def document(client_id, nodes=1):
    brokers = {
        str(number): {"name": f"b{number}:9092/{number}", "nodeid": number}
        for number in range(nodes)
    }
    return json.dumps({"client_id": client_id, "type": "producer", "brokers": brokers}).encode()


def test_distinct_clients_are_remembered_up_to_a_bound_and_the_rest_is_counted(inputs):
    arrived = 0
    for number in range(MOST_CLIENTS_AND_NODES):
        inputs.accept_statistics(document(f"client-{number}"))
        arrived += len(inputs.take())
    assert arrived == status(inputs).clients == MOST_CLIENTS_AND_NODES // 2
    assert status(inputs).dropped == MOST_CLIENTS_AND_NODES - arrived
    assert (status(inputs).reads, status(inputs).up) == (MOST_CLIENTS_AND_NODES, True)


def test_a_client_that_is_known_is_taken_also_when_there_is_no_room_for_new_ones(inputs):
    inputs.accept_statistics(document("known"))
    inputs.accept_statistics(document("large", MOST_CLIENTS_AND_NODES - 3))
    inputs.accept_statistics(document("new"))
    inputs.accept_statistics(document("known"))
    told = [reading.clients[0].client_id for reading in inputs.take()]
    assert told == ["known", "large", "known"]


def test_silent_clients_make_room_for_new_ones():
    now = [NOW]
    inputs = Inputs(SourceSettings(), (), lambda: None, lambda: now[0], lambda: now[0])
    inputs.accept_statistics(document("large", MOST_CLIENTS_AND_NODES - 1))
    now[0] += 61.0
    assert inputs.statuses(now[0])[0].clients == 0
    inputs.accept_statistics(document("new"))
    assert [reading.clients[0].client_id for reading in inputs.take()] == ["large", "new"]
    inputs.stop()


def test_what_waits_for_the_poll_is_bounded_in_nodes_too(inputs):
    large = MOST_WAITING_NODES // 4
    for _ in range(6):
        inputs.accept_statistics(document("large", large))
    assert len(inputs.take()) == 4
    assert status(inputs).dropped == 2


def test_statuses_may_be_asked_for_while_clients_come(inputs):
    ended = threading.Event()

    def come():
        for number in itertools.count():
            inputs.accept_statistics(document(f"client-{number}"))
            inputs.take()
            if ended.is_set():
                return

    inputs.accept_statistics(DOCUMENT)
    switched = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=come)
    thread.start()
    try:
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            clients = inputs.statuses(NOW)[0].clients
            if clients > 1000:
                inputs.statuses(NOW + 100.0)
    finally:
        ended.set()
        thread.join()
        sys.setswitchinterval(switched)


def test_statistics_wait_for_the_next_poll_and_cause_none():
    woken = []
    made = Inputs(SourceSettings(), (), lambda: woken.append(1), lambda: NOW, lambda: NOW)
    made.accept_statistics(DOCUMENT)
    assert (len(made.take()), woken) == (1, [])
    made.stop()


def test_rubbish_is_logged_once_a_minute_however_it_changes(caplog):
    clock = Clock()
    made = Inputs(SourceSettings(), (), lambda: None, clock, clock)
    for number in range(600):
        clock.now += 0.2
        with contextlib.suppress(SourceDecodeError):
            made.accept_statistics(b'{"client_id":%d}' % number if number % 2 else b"{%d" % number)
        made.accept_statistics(DOCUMENT)
    made.stop()
    lines = [record.message for record in caplog.records]
    assert lines.count("source cannot be read") == 2
    assert lines.count("source readable again") <= 2
