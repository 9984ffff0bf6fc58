"""A Java source over time: which page it asks for, and what it makes of the answers."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from exporter.clients.java import WHOLE_PAGE_EVERY, JavaSource
from exporter.clients.prometheus_dialects import DIALECTS
from exporter.config.settings import JavaSourceSettings
from exporter.errors import SourceDecodeError, SourceUnavailableError
from exporter.http.fetch import Response
from exporter.model import ClientKind

GOLDEN = Path(__file__).parents[1] / "golden" / "metrics"
URL = "http://127.0.0.1:9404/metrics"
PLAIN = (GOLDEN / "jmx-1-plain-4.4.0.prom").read_bytes()
MICROMETER = (GOLDEN / "micrometer-4.4.0.prom").read_bytes()
JOLOKIA = (GOLDEN / "jolokia-4.4.0.json").read_bytes()
NOTHING = b"jvm_threads 1\n"


class FakeServer:
    """Answers with a page, by name or whole; remembers what it was asked for."""

    def __init__(self, page, *, content_type="text/plain", knows_names=True):
        self.page = page
        self.content_type = content_type
        self.knows_names = knows_names
        self.asked = []
        self.now = 100.0
        self.posted = JOLOKIA

    def __call__(self, url, **how):
        self.asked.append((url, how))
        self.now += 10
        body = self.posted if how["body"] else self.page
        if urlsplit(url).query and not self.knows_names:
            body = b""
        return Response(
            where=URL,
            content_type=self.content_type,
            body=body,
            begun_at=self.now,
            ended_at=self.now + 0.02,
        )

    @property
    def queries(self):
        return [parse_qs(urlsplit(url).query) for url, _ in self.asked]


def source_of(server, **settings):
    return JavaSource(JavaSourceSettings(name="app", url=URL, **settings), server)


def test_a_reading_carries_the_times_of_the_exchange():
    server = FakeServer(PLAIN)
    reading = source_of(server).read()
    assert (
        reading.source,
        reading.begun_at,
        reading.ended_at,
        reading.sender_pid,
    ) == ("app", 110.0, 110.02, None)
    assert {"orders", "operator", 'billing: daily, "all"'} == {
        client.client_id for client in reading.clients
    }


def test_the_settings_reach_the_request():
    server = FakeServer(PLAIN)
    source_of(server, timeout=3.0, max_bytes=77, username="u", password_file="/p").read()
    _, how = server.asked[0]
    assert (
        how["timeout_seconds"],
        how["max_bytes"],
        how["credentials"].username,
        how["credentials"].password_file,
        how["body"],
    ) == (3.0, 77, "u", "/p", None)


def test_after_a_whole_page_its_dialect_is_asked_by_name():
    server = FakeServer(PLAIN)
    source = source_of(server)
    source.read()
    source.read()
    first, second = server.queries
    assert first == {}
    names = second["name[]"]
    assert "kafka_consumer_consumer_node_metrics_outgoing_byte" in names
    assert "kafka_admin_client_admin_client_metrics_connection_count" in names
    assert "kafka_consumer_consumer_node_metrics_outgoing_byte_total" not in names
    assert len(server.asked[1][0]) < 4000  # servers take 8 KB


def test_micrometer_is_asked_in_springs_way():
    server = FakeServer(MICROMETER)
    source = source_of(server)
    source.read()
    source.read()
    (names,) = server.queries[1]["includedNames"]
    assert "kafka_producer_node_outgoing_byte_total" in names.split(",")


def test_a_query_of_the_configuration_is_kept():
    server = FakeServer(PLAIN)
    source = JavaSource(JavaSourceSettings(name="app", url=f"{URL}?target=a"), server)
    source.read()
    source.read()
    assert [query["target"] for query in server.queries] == [["a"], ["a"]]


def test_a_server_that_does_not_know_names_is_asked_for_the_whole_page_again():
    server = FakeServer(PLAIN, knows_names=False)
    source = source_of(server)
    assert [len(source.read().clients) for _ in range(5)] == [3, 0, 3, 3, 3]
    assert [bool(query) for query in server.queries] == [False, True, False, False, False]


def test_names_are_tried_again_when_the_clients_were_only_gone():
    server = FakeServer(PLAIN)
    source = source_of(server)
    source.read()
    server.page = NOTHING
    assert source.read().clients == ()
    assert source.read().clients == ()
    server.page = PLAIN
    source.read()
    source.read()
    assert [bool(query) for query in server.queries] == [False, True, False, False, True]


def test_the_whole_page_is_read_from_time_to_time():
    server = FakeServer(PLAIN)
    source = source_of(server)
    for _ in range(WHOLE_PAGE_EVERY + 1):
        source.read()
    whole = [number for number, query in enumerate(server.queries, 1) if not query]
    assert whole == [1, WHOLE_PAGE_EVERY]


def test_a_dialect_that_changes_is_followed():
    server = FakeServer(PLAIN)
    source = source_of(server)
    source.read()
    server.page = NOTHING
    source.read()
    server.page = MICROMETER
    assert source.read().clients


def test_jolokia_is_found_by_its_answer():
    server = FakeServer(b'{"request": {"type": "version"}, "status": 200}')
    source = source_of(server)
    for _ in range(2):
        assert {ClientKind.PRODUCER, ClientKind.CONSUMER, ClientKind.ADMIN} == {
            client.kind for client in source.read().clients
        }
    assert [bool(how["body"]) for _, how in server.asked] == [False, True, True]


def test_jolokia_by_configuration_is_posted_to_at_once():
    server = FakeServer(JOLOKIA, content_type="application/json")
    assert len(source_of(server, format="jolokia").read().clients) == 3
    (_, how) = server.asked[0]
    assert how["body"]
    assert how["headers"]["Content-Type"] == "application/json"


def test_prometheus_by_configuration_is_never_jolokia():
    server = FakeServer(b'{"a": 1}')
    assert source_of(server, format="prometheus").read().clients == ()


def test_a_web_page_is_no_metrics_page():
    server = FakeServer(b"<html>sign in</html>", content_type="text/html")
    with pytest.raises(SourceDecodeError, match="answered with HTML; give the URL of the metrics"):
        source_of(server).read()


def test_bytes_that_are_no_text_are_an_error():
    server = FakeServer(b"kafka_\xff 1\n")
    with pytest.raises(SourceDecodeError, match="not UTF-8 text"):
        source_of(server).read()


def test_an_error_of_the_fetch_passes_through():
    def get(_url, **_how):
        raise SourceUnavailableError("refused")

    with pytest.raises(SourceUnavailableError, match="refused"):
        source_of(get).read()


def test_names_and_kind():
    source = source_of(FakeServer(PLAIN))
    assert (source.name, source.kind) == ("app", "java")


def test_every_dialect_has_a_name_of_its_own():
    assert len(DIALECTS) == len({dialect.name for dialect in DIALECTS})
