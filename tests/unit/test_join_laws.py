"""What the laws say of one client or node: the cost of a record, and how many a message is."""

from __future__ import annotations

import pytest

from exporter.join.laws import (
    LAWS,
    PLAIN,
    Counts,
    Law,
    Shape,
    counts_of,
    law_told,
    most_extra_records,
    shape_of,
)
from exporter.model import CipherUse, ClientKind, Library
from tests.unit.joins import client, node

GCM_13 = CipherUse("TLSv1.3", "TLS_AES_256_GCM_SHA384", 1)
CHACHA_13 = CipherUse("TLSv1.3", "TLS_CHACHA20_POLY1305_SHA256", 1)
GCM_12 = CipherUse("TLSv1.2", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", 1)
CHACHA_12 = CipherUse("TLSv1.2", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", 1)
CBC_12 = CipherUse("TLSv1.2", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", 1)


@pytest.mark.parametrize(
    ("ciphers", "law"),
    [
        pytest.param((GCM_13, CHACHA_13), Law(38, 38), id="tls13-whatever-the-suite"),
        pytest.param((GCM_12,), Law(29, 29), id="tls12-gcm"),
        pytest.param((CHACHA_12,), Law(21, 21), id="tls12-chacha20"),
        pytest.param((CBC_12,), None, id="padding-has-no-fixed-cost"),
        pytest.param((GCM_13, GCM_12), None, id="two-costs-at-once"),
        pytest.param((GCM_13, CBC_12), None, id="one-cost-is-unknown"),
        pytest.param((), None, id="nothing-reported"),
    ],
)
def test_a_reported_cipher_names_the_law_only_where_all_connections_cost_the_same(ciphers, law):
    assert law_told(client("c", ciphers=ciphers)) == law
    assert law is None or law in LAWS[Library.JAVA]


def test_a_client_of_an_unknown_library_may_be_under_any_law_once():
    laws = LAWS[Library.UNKNOWN]
    assert set(laws) == {*LAWS[Library.JAVA], *LAWS[Library.LIBRDKAFKA]}
    assert len(laws) == len(set(laws))


@pytest.mark.parametrize("library", Library)
def test_every_library_may_speak_plaintext(library):
    assert PLAIN in LAWS[library]


@pytest.mark.parametrize(
    ("out", "incoming"), [(0, 5), (5, 0), (None, 5), (5, None), (-1, 5), (5, -1)]
)
def test_a_node_that_has_not_both_sent_and_received_has_no_totals(out, incoming):
    assert counts_of(node("-1", out, incoming)) is None


def test_requests_that_are_not_reported_are_not_zero_requests():
    assert counts_of(node("-1", 5, 6)) == Counts(5, 6, -1, -1)
    assert counts_of(node("-1", 5, 6, requests=0, responses=1)) == Counts(5, 6, 0, 1)


@pytest.mark.parametrize(
    ("node_id", "kind", "shape"),
    [
        ("-1", ClientKind.PRODUCER, Shape(out=True, incoming=True)),
        ("2147483646", ClientKind.CONSUMER, Shape(out=True, incoming=True)),
        ("1", ClientKind.PRODUCER, Shape(out=False, incoming=True)),
        ("1", ClientKind.CONSUMER, Shape(out=True, incoming=False)),
        ("1", ClientKind.ADMIN, Shape(out=True, incoming=True)),
        ("1", ClientKind.UNKNOWN, Shape(out=False, incoming=False)),
    ],
)
def test_only_produce_requests_and_fetch_responses_are_several_records(node_id, kind, shape):
    assert shape_of(node(node_id, kind=kind, requests=1, responses=1), kind) == shape


def test_messages_that_are_not_counted_give_no_number_of_records():
    assert shape_of(node("-1"), ClientKind.ADMIN) == Shape(out=False, incoming=False)


def test_a_message_above_8000_bytes_may_be_another_record():
    assert most_extra_records(1, 7_999, exact=True) == 0
    assert most_extra_records(1, 16_000, exact=True) == 2


def test_each_request_of_data_may_be_40_records_more():
    assert most_extra_records(3, 100, exact=False) == 3 * 40
    # Where requests are not counted, the bytes are those of one at least.
    assert most_extra_records(0, 100, exact=False) == 40
    assert most_extra_records(3, 0, exact=False) == 0
