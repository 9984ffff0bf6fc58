"""What `brokerwire top` shows and what its keys do, without a terminal."""

import json
from dataclasses import replace

import pytest
from rich.console import Console

from exporter.commands.top import keys_of
from exporter.commands.top_screen import Shown, screen_of
from exporter.commands.top_state import HELP, State, lines_of, press, rates_between
from exporter.web.document import connections_document, encode
from tests.unit.payloads import PAYLOADS
from tests.unit.snapshots import PROCESS, connection, fleet, page_sample, snapshot

PAST = tuple((10 + look % 5, look % 3) for look in range(200))


def document_of(snap):
    return json.loads(encode(connections_document(snap)))


DOCUMENT = document_of(page_sample())
START = State()


def screen(document=DOCUMENT, state=START, width=80, height=24):
    console = Console(width=width, height=height, color_system=None, force_terminal=False)
    shown = Shown(document, lines_of(document, state), {}, PAST)
    with console.capture() as captured:
        console.print(screen_of(shown, state, width, height))
    return captured.get().splitlines()


def pressed(*keys, state=START):
    for key in keys:
        state = press(state, key, lines_of(DOCUMENT, state))
    return state


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("height", [24, 50])
@pytest.mark.parametrize(
    "document", [DOCUMENT, document_of(fleet(60, 3)), document_of(snapshot(()))]
)
def test_a_screen_fits(width, height, document):
    state = State(group="client", opened="orders-producer-000/producer/orders")
    lines = screen(document, state, width, height)
    assert len(lines) <= height
    assert max(len(line) for line in lines) <= width


def test_the_screen_has_what_the_page_has():
    text = "\n".join(screen())
    for words in ("12 connections (6 expected)", "4 wasted", "55% efficient", "sources 1/2"):
        assert words in text
    orders = next(line for line in text.splitlines() if "orders  pid 41" in line)
    assert orders.split()[-5:-2] == ["11", "6", "4"]
    assert "RECOMMENDATIONS (1)" in text


def test_enter_opens_a_group_and_then_a_story():
    opened = pressed("j", "enter")
    assert opened.opened == "orders"
    assert sum("zombie" in line for line in screen(state=opened)) == 3
    story = pressed("j", "enter", state=opened)
    text = "\n".join(screen(state=story))
    assert "half closed (CLOSE_WAIT)" in text
    assert "closes:" in text
    assert pressed("x", state=story) == replace(story, story="")


def test_moving_stops_at_both_ends():
    assert pressed("k").chosen == pressed("j").chosen == "group orders"
    assert pressed("j", "j", "j", "j").chosen == "group billing"


def test_a_filter_is_typed_and_dropped():
    typed = pressed("/", *"zombie 10.2.0.3", "backspace", "2", "enter")
    (line,) = lines_of(DOCUMENT, typed)
    assert [record["broker"] for record in line.group.records] == ["10.2.0.2:9092"]
    assert line.group.expected is None
    assert lines_of(DOCUMENT, pressed("esc", state=typed)) == lines_of(DOCUMENT, State())


def test_groups_are_by_process_client_and_broker():
    counts = []
    state = State()
    for _ in range(3):
        counts.append(len(lines_of(DOCUMENT, state)))
        state = pressed("g", state=state)
    assert counts == [2, 3, 4]
    assert state == State()
    assert pressed("b").group == "broker"


def test_every_key_of_the_help_does_something():
    for keys, _ in HELP:
        for key in keys.split():
            assert pressed("j", key) != pressed("j") or key == "k", key


def test_rates_are_of_what_moved_between_two_looks():
    before = document_of(snapshot((connection(1), connection(2))))
    moved = snapshot((connection(1, outgoing_bytes=1803 + 500), connection(2)))
    after = document_of(replace(moved, wall_time=moved.wall_time + 2))
    assert rates_between(before, after) == {"1": (250.0, 0.0), "2": (0.0, 0.0)}
    assert rates_between(None, after) == {}
    assert rates_between(after, after) == {}


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_name_controls_the_terminal(payload):
    owner = replace(PROCESS, name=payload)
    each = connection(1, client_id=payload, owner=owner, evidence=(payload,))
    document = document_of(snapshot((each,)))
    for state in (State(), State(group="client"), State(opened=payload), State(story="1")):
        assert all(line.isprintable() for line in screen(document, state)), state


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        (b"j", ["j"]),
        (b"\r", ["enter"]),
        (b"\x1b", ["esc"]),
        (b"\x1b[A", ["up"]),
        (b"\x1b[1;5C", []),
        (b"\x7f", ["backspace"]),
        (b"ab\xff", ["a", "b"]),
        (b"\x1bb", ["esc", "b"]),
        (b"j\x1b[Bj", ["j", "down", "j"]),
    ],
)
def test_keys_are_read_as_terminals_send_them(sent, keys):
    assert keys_of(sent) == keys
