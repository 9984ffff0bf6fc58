"""What a client's reads say of its law, its logins and its connections."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from exporter.join.clients import Client
from exporter.join.laws import LAWS, PLAIN, Law
from exporter.model import CipherUse, ClientKey, ClientKind, Library
from tests.unit.joins import client, node, row

TLS = Law(38, 38)
CIPHERS = (CipherUse("TLSv1.3", "TLS_AES_256_GCM_SHA384", 1),)
KEY = ClientKey("app", ClientKind.ADMIN, "c")


def a_client(reads=3, *, nodes=1, **reported):
    """Return a client whose nodes were read so often."""
    one = Client(KEY, client("c", **reported))
    one.rows = {name: row(name) for name in (f"-{number}" for number in range(1, nodes + 1))}
    for read in range(1, reads + 1):
        for name, each in one.rows.items():
            each.take(node(name, read, read), KEY.kind, read, (read, read))
        one.count_reads()
    return one


def test_a_client_that_was_made_again_is_open_only_by_its_own_reads():
    one = a_client(5, authentications=1)
    one.reading = client("c", authentications=0)
    one.count_reads()
    assert not one.is_open


@pytest.mark.parametrize(
    ("reported", "reads", "is_open"),
    [
        pytest.param({"authentications": 0}, 3, True, id="none"),
        pytest.param({"authentications": 0}, 2, False, id="counted-late"),
        pytest.param({"authentications": 1}, 3, False, id="one"),
        pytest.param({}, 3, False, id="not-counted"),
        pytest.param(
            {"authentications": 0, "library": Library.LIBRDKAFKA}, 3, False, id="librdkafka"
        ),
    ],
)
def test_a_java_client_is_open_once_it_should_have_counted_a_handshake_or_login(
    reported, reads, is_open
):
    one = a_client(reads, **reported)
    assert one.is_open is is_open
    assert (one.learn_law(), one.law) == ((True, PLAIN) if is_open else (False, None))


def test_an_open_client_is_shown_by_equality_however_few_its_reads():
    one = a_client(1, library=Library.LIBRDKAFKA)
    one.is_shown_open = True
    assert one.is_open


def test_a_law_is_learned_once():
    one = a_client(authentications=1, ciphers=CIPHERS)
    assert one.laws == LAWS[Library.JAVA]
    assert one.learn_law()
    assert one.laws == (TLS,)
    assert not one.learn_law()


def test_what_was_shown_outweighs_what_is_reported():
    one = a_client(authentications=1, ciphers=CIPHERS)
    one.is_shown_open = True
    one.learn_law()
    assert one.law == PLAIN


@pytest.mark.parametrize(
    ("reported", "may_log_in"),
    [
        pytest.param({"authentications": 1, "reauthentications": 0}, False, id="never-did"),
        pytest.param({"authentications": 1, "reauthentications": 2}, True, id="did"),
        pytest.param({"authentications": 1}, True, id="not-counted"),
        pytest.param({"authentications": 0, "reauthentications": 2}, False, id="open"),
        pytest.param({"library": Library.LIBRDKAFKA}, False, id="librdkafka-counts-its-logins"),
    ],
)
def test_a_client_may_log_in_again_unless_it_counts_that_or_has_no_login(reported, may_log_in):
    assert a_client(**reported).may_log_in is may_log_in


def test_connection_counts_hold_only_once_two_reads_agree():
    one = a_client(connection_count=2, connections_created=5)
    assert (one.held, one.created) == (None, None)
    one.is_steady = True
    assert (one.held, one.created) == (2, 5)


@pytest.mark.parametrize(("created", "never"), [(2, True), (3, False), (1, False), (None, False)])
def test_no_node_had_two_connections_where_as_many_were_opened_as_nodes_counted(created, never):
    one = a_client(nodes=2, connections_created=created)
    assert not one.never_reconnected
    one.is_steady = True
    one.rows["-3"] = row("-3")
    assert one.never_reconnected is never


def test_a_client_id_is_shared_where_three_reads_show_more_nodes_than_connections():
    one = a_client()
    one.shared_reads = 2
    assert not one.is_shared
    one.shared_reads = 3
    assert one.is_shared


@pytest.mark.parametrize(
    ("library", "authentications", "law", "is_open"),
    [
        pytest.param(Library.JAVA, 0, PLAIN, True, id="java-without-login"),
        pytest.param(Library.JAVA, 1, PLAIN, False, id="java-with-login"),
        pytest.param(Library.LIBRDKAFKA, None, PLAIN, True, id="librdkafka-counts-its-logins"),
        pytest.param(Library.LIBRDKAFKA, None, TLS, False, id="nobody-counts-handshakes"),
    ],
)
def test_only_what_a_client_does_not_count_may_come_before_its_first_byte(
    library, authentications, law, is_open
):
    asked = []
    pair = SimpleNamespace(law=law, may_begin=lambda **given: asked.append(given))
    a_client(library=library, authentications=authentications).may_begin(pair)
    assert asked == [{"is_open": is_open}]
