from __future__ import annotations

import pytest

from exporter.metrics.labels import OTHER, Labels, safe_label
from exporter.snapshot import LIFETIME_BUCKETS, ClientBroker

PER_PAIR = len(LIFETIME_BUCKETS) + 3


def pair(client: object, broker: int = 1) -> ClientBroker:
    return ClientBroker(str(client), "producer", "app", str(broker), f"10.0.0.{broker}:9092")


def named(labels: Labels, pairs: list[ClientBroker]) -> list[ClientBroker]:
    labels.settle(set(pairs))
    return [labels[each] for each in pairs]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param("orders-1", "orders-1", id="plain"),
        pytest.param("Bestellungen äöü 订单", "Bestellungen äöü 订单", id="letters"),
        pytest.param("a\nb\tc\r", r"a\nb\tc\r", id="lines"),
        pytest.param("\x1b[31mred", r"\x1b[31mred", id="escape"),
        pytest.param("a\x85b\x9b", r"a\x85b\x9b", id="c1"),
        pytest.param("a\u2028b\u2029", r"a\u2028b\u2029", id="line separators"),
        pytest.param("abc\u202edef\u2066", r"abc\u202edef\u2066", id="bidi"),
        pytest.param("a\u200bb\ufeff", r"a\u200bb\ufeff", id="zero width"),
        pytest.param("caf\udce9", r"caf\udce9", id="not utf-8"),
    ],
)
def test_what_is_invisible_is_shown(value, shown):
    assert safe_label(value, 128) == shown


@pytest.mark.parametrize(
    "value", ["x" * 500, "ä" * 500, "\n" * 500, "\N{MATHEMATICAL FRAKTUR CAPITAL U}" * 40]
)
def test_long_values_are_cut_in_bytes(value):
    assert len(safe_label(value, 128).encode()) <= 128


def test_long_values_that_begin_alike_stay_apart():
    assert safe_label("x" * 500 + "a", 128) != safe_label("x" * 500 + "b", 128)


def test_pairs_keep_their_names_while_there_is_room():
    labels = Labels(series=10_000, label_bytes=128)
    pairs = [pair(client) for client in range(100)]
    assert named(labels, pairs) == pairs
    assert labels.folded == 0
    assert labels.renamed == 0


def test_pairs_beyond_the_room_are_folded_by_broker():
    labels = Labels(series=40 * PER_PAIR, label_bytes=128)
    names = named(labels, [pair(client, client % 3) for client in range(100)])
    others = {name for name in names if name.client_kind == OTHER}
    assert len(set(names)) <= 40
    assert {name.broker for name in others} == {f"10.0.0.{broker}:9092" for broker in range(3)}
    assert labels.folded == 100 - len(set(names) - others)


def test_many_brokers_are_bounded_too():
    labels = Labels(series=40 * PER_PAIR, label_bytes=128)
    names = named(labels, [pair(client, client) for client in range(1000)])
    assert len(set(names)) <= 40
    assert ClientBroker(OTHER, OTHER, OTHER, OTHER, OTHER) in names


def test_a_folded_pair_stays_folded_while_it_lives():
    labels = Labels(series=4 * PER_PAIR, label_bytes=128)
    first, second, third, fourth = (pair(client) for client in "abcd")
    before = named(labels, [first, second, third, fourth])
    assert before[3].client_id == OTHER
    assert named(labels, [second, third, fourth]) == before[1:]


def test_a_place_is_free_again_when_its_pair_is_gone():
    labels = Labels(series=4 * PER_PAIR, label_bytes=128)
    named(labels, [pair(client) for client in "abcd"])
    labels.settle(set())
    assert labels.folded == 0
    assert labels.renamed == 0
    assert named(labels, [pair("e")]) == [pair("e")]


def test_a_client_that_calls_itself_other_is_no_bucket():
    labels = Labels(series=10_000, label_bytes=128)
    hostile = ClientBroker("other", "producer", "other", "1", "10.0.0.1:9092")
    folded = ClientBroker("other", "other", "other", "1", "10.0.0.1:9092")
    assert named(labels, [hostile, folded]) == [hostile, folded]
    assert labels.folded == 0


def test_what_a_client_had_at_brokers_that_are_gone_keeps_its_name_where_there_is_no_room():
    """Its sums over brokers would go back if that part of them became somebody else's."""
    labels = Labels(series=PER_PAIR * 8, label_bytes=128)
    pairs = [pair(number) for number in range(50)]
    shown = dict(zip(pairs, named(labels, pairs), strict=True))
    known = next(each for each in pairs if shown[each] == each)
    folded = next(each for each in pairs if shown[each] != each)
    rest = [each._replace(broker_id=OTHER, broker=OTHER) for each in (known, folded)]
    after = named(labels, [*pairs, *rest])[-2:]
    assert after[0] == rest[0]
    assert after[1].client_id == OTHER
