"""Real requests over real sockets: what is served, to whom, and how it is refused."""

from __future__ import annotations

import gzip
import itertools
import json
import re
import socket
import threading
import time
from contextlib import ExitStack

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from exporter.config.settings import StatisticsSettings
from exporter.errors import ConfigError, SourceDecodeError, SourceUnavailableError
from exporter.web.live import MOST_WATCHERS
from tests.integration.web_support import (
    Agent,
    ask,
    connected,
    port_of,
    raw,
    receive_all,
    say,
    serving,
)
from tests.unit.snapshots import fleet

GET = b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n"
OPENMETRICS = {"Accept": "application/openmetrics-text;version=1.0.0"}


@pytest.fixture(scope="module")
def server():
    with serving() as made:
        yield made


@pytest.mark.parametrize(
    ("path", "content_type"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/metrics", "text/plain; version=0.0.4; charset=utf-8"),
        ("/-/healthy", "text/plain; charset=utf-8"),
        ("/-/ready", "text/plain; charset=utf-8"),
        ("/api/v1/connections", "application/json"),
        ("/api/v1/findings", "application/json"),
        ("/api/v1/sources", "application/json"),
        ("/api/v1/history", "application/json"),
        ("/api/v1/events", "application/json"),
        ("/api/v1/classes", "application/json"),
    ],
)
def test_every_path_answers(server, path, content_type):
    status, headers, body = ask(server, "GET", path)
    assert (status, headers["Content-Type"]) == (200, content_type)
    assert int(headers["Content-Length"]) == len(body) > 0


def test_prometheus_reads_the_page(server):
    _, _, body = ask(server, "GET", "/metrics")
    names = {family.name for family in parse_text(body.decode())}
    assert {"kafka_client_connections", "brokerwire_polls", "process_cpu_seconds"} <= names


def test_openmetrics_is_for_who_asks(server):
    _, headers, body = ask(server, "GET", "/metrics", headers=OPENMETRICS)
    assert headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert list(parse_openmetrics(body.decode()))


def test_large_pages_are_compressed_for_who_asks():
    with serving(Agent(fleet(5, 5))) as server:
        _, plain_headers, plain = ask(server, "GET", "/metrics")
        _, headers, packed = ask(server, "GET", "/metrics", headers={"Accept-Encoding": "gzip"})
    assert plain_headers["Content-Encoding"] is None
    assert headers["Content-Encoding"] == "gzip"
    assert len(packed) < len(plain) / 5
    assert b"kafka_client_connections" in gzip.decompress(packed)


def test_head_has_the_headers_and_no_body(server):
    _, headers, body = ask(server, "GET", "/-/healthy")
    status, head_headers, nothing = ask(server, "HEAD", "/-/healthy")
    assert (status, nothing) == (200, b"")
    assert head_headers["Content-Length"] == headers["Content-Length"] == str(len(body))


def test_a_connection_serves_many_requests(server):
    with connected(server) as client:
        for path in ("/metrics", "/nothing", "/-/ready", "/metrics"):
            client.request("GET", path)
            response = client.getresponse()
            response.read()
            sock = client.sock
            assert response.status in (200, 404)
        assert client.sock is sock is not None


def test_requests_may_be_pipelined(server):
    answers = say(
        server,
        GET % b"/-/healthy" * 3
        + GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") % b"/-/ready",
    )
    assert answers.count(b"HTTP/1.1 200") == 4
    assert answers.endswith(b"ready\n")


@pytest.mark.parametrize(
    ("target", "status"),
    [
        pytest.param(b"/metrics?name=a", 200, id="query"),
        pytest.param(b"http://a:1/metrics", 200, id="absolute form"),
        pytest.param(b"/metrics/", 404, id="slash"),
        pytest.param(b"//metrics", 404, id="two slashes"),
        pytest.param(b"/../metrics", 404, id="dots"),
        pytest.param(b"/%6detrics", 404, id="percent"),
        pytest.param(b"*", 404, id="star"),
        pytest.param(b"/api/v1/statistics", 404, id="statistics that nobody takes"),
    ],
)
def test_only_exact_paths_are_served(server, target, status):
    answer = say(server, b"GET %b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % target)
    assert answer.startswith(b"HTTP/1.1 %d " % status)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
@pytest.mark.parametrize("path", ["/", "/metrics", "/api/v1/connections"])
def test_nothing_can_be_changed(server, method, path):
    status, headers, _ = ask(server, method, path)
    assert (status, headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 9 + b"\r\n\r\n", id="TLS"),
        pytest.param(b"GET /metrics HTTP/1.1\r\n\r\n", id="no host"),
        pytest.param(b"GET /metrics HTTP/3.0\r\nHost: a\r\n\r\n", id="version"),
        pytest.param(b"GET /m etrics HTTP/1.1\r\nHost: a\r\n\r\n", id="space"),
        pytest.param(b"GET /metrics HTTP/1.1\r\nHost: a\r\nA : b\r\n\r\n", id="header name"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", id="length"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", id="below zero"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", id="body"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", id="promised body"),
        pytest.param(
            b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", id="chunks"
        ),
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            id="two lengths",
        ),
    ],
)
def test_what_is_no_request_is_refused_and_the_connection_ends(server, data):
    begun = time.monotonic()
    answer = say(server, data)
    assert re.match(rb"HTTP/1\.1 (400|405|501|505) ", answer)
    assert b"Connection: close" in answer
    assert time.monotonic() - begun < 3


@pytest.mark.parametrize("size", [20_000, 200_000, 5_000_000])
@pytest.mark.parametrize("head", [b"GET / HTTP/1.1\r\nHost: a\r\nX: ", b"GET /"])
def test_a_huge_head_is_refused(server, head, size):
    with raw(server) as sock:
        try:
            sock.sendall(head + b"x" * size)
        except (ConnectionResetError, BrokenPipeError):
            return  # cut off while it was still talking
        assert receive_all(sock).startswith(b"HTTP/1.1 431 ")


def test_many_headers_are_a_huge_head(server):
    answer = say(server, b"GET / HTTP/1.1\r\nHost: a\r\n" + b"A: b\r\n" * 5000)
    assert answer.startswith(b"HTTP/1.1 431 ") or answer == b""


def test_every_answer_carries_what_keeps_browsers_safe(server):
    for path in ("/", "/metrics", "/nothing", "/api/v1/connections"):
        _, headers, _ = ask(server, "GET", path)
        assert headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"
        assert "Server" not in headers


def test_before_the_first_poll_only_the_agent_is_shown():
    with serving(lambda: None) as server:
        assert ask(server, "GET", "/-/healthy")[0] == 200
        assert ask(server, "GET", "/-/ready")[0] == 503
        assert ask(server, "GET", "/api/v1/connections")[0] == 503
        status, _, body = ask(server, "GET", "/metrics")
    assert status == 200
    assert b"brokerwire_build_info" in body
    assert b"kafka_client_" not in body


def test_a_stale_snapshot_is_said_to_be_so_and_in_the_end_unhealthy():
    agent = Agent()
    with serving(agent) as server:
        agent.age = 10.0
        assert b"kafka_client_" not in ask(server, "GET", "/metrics")[2]
        assert json.loads(ask(server, "GET", "/api/v1/findings")[2])["stale"] is True
        assert b"out of date" in ask(server, "GET", "/")[2]
        assert ask(server, "GET", "/-/healthy")[0] == 200
        agent.age = 31.0
        assert ask(server, "GET", "/-/healthy")[0] == 503
        assert ask(server, "GET", "/-/ready")[0] == 200


def test_a_dead_poll_thread_is_unhealthy():
    with serving(is_alive=lambda: False) as server:
        assert ask(server, "GET", "/-/healthy")[0] == 503


def test_a_bug_is_a_500_and_the_server_goes_on(caplog):
    states = iter([RuntimeError("boom")])

    def source():
        for state in states:
            raise state
        return Agent()()

    with serving(source) as server:
        assert ask(server, "GET", "/metrics")[0] == 500
        assert ask(server, "GET", "/metrics")[0] == 200
    assert "bug in an answer" in caplog.text


def test_what_was_asked_is_counted_without_repeating_it():
    with serving(Agent()) as server:
        ask(server, "GET", "/metrics")
        ask(server, "GET", "/evil-7f3a")
        ask(server, "BREW", "/metrics")
        # A page of its own: each format is made once a second.
        text = ask(server, "GET", "/metrics", headers=OPENMETRICS)[2].decode()
    assert 'brokerwire_http_requests_total{code="200",handler="metrics"} 1.0' in text
    assert 'brokerwire_http_requests_total{code="404",handler="other"} 1.0' in text
    assert 'brokerwire_http_requests_total{code="405",handler="metrics"} 1.0' in text
    assert "evil" not in text
    assert "BREW" not in text


# Statistics


def taking(function=None, **options):
    return serving(Agent(), function or (lambda *_: None), **options)


def test_statistics_are_taken_with_their_sender():
    taken = []
    with taking(lambda body, peer: taken.append((body, peer.address))) as server:
        assert ask(server, "POST", "/api/v1/statistics", b'{"name":"a"}')[0] == 202
        status, headers, _ = ask(server, "GET", "/api/v1/statistics")
    assert taken == [(b'{"name":"a"}', "127.0.0.1")]
    assert (status, headers["Allow"]) == (405, "POST")


def test_chunks_and_expectations_are_understood():
    taken = []
    request = (
        b"POST /api/v1/statistics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n%b"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    with taking(lambda body, _: taken.append(body)) as server, raw(server) as sock:
        sock.sendall(request % b"Expect: 100-continue\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.1 100 ")
        sock.sendall(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
        assert receive_all(sock).startswith(b"HTTP/1.1 202 ")
    assert taken == [b"abcde"]


@pytest.mark.parametrize(
    ("error", "status"),
    [(SourceDecodeError("no statistics: a list"), 400), (SourceUnavailableError("full"), 503)],
)
def test_the_sender_is_told_what_is_wrong(error, status):
    def refuse(*_):
        raise error

    with taking(refuse) as server:
        answer, _, body = ask(server, "POST", "/api/v1/statistics", b"[]")
    assert (answer, body.decode().strip()) == (status, str(error))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({"Origin": "http://evil.example"}, 403, id="a page in a browser"),
        pytest.param({"Origin": "null"}, 403, id="a file in a browser"),
        pytest.param({"Content-Encoding": "gzip"}, 415, id="compressed"),
    ],
)
def test_statistics_that_are_not_welcome(headers, status):
    taken = []
    with taking(lambda *each: taken.append(each)) as server:
        assert ask(server, "POST", "/api/v1/statistics", b"{}", headers)[0] == status
    assert taken == []


def test_posts_that_cause_much_work_are_told_to_come_back(monkeypatch):
    # Each look at this clock finds a second of work.
    work = itertools.count()
    monkeypatch.setattr(time, "thread_time", lambda: next(work))
    with taking() as server:
        assert ask(server, "POST", "/api/v1/statistics", b"{}")[0] == 202
        # At a quarter of a processor that is four seconds: two are free, one is waited here.
        begun = time.monotonic()
        status, headers, _ = ask(server, "POST", "/api/v1/statistics", b"{}")
        assert (status, headers["Retry-After"] in {"1", "2"}) == (429, True)
        assert time.monotonic() - begun > 0.9
        assert ask(server, "GET", "/metrics")[0] == 200


def test_a_body_with_two_lengths_is_refused():
    taken = []
    with taking(lambda *each: taken.append(each)) as server:
        answer = say(
            server,
            b"POST /api/v1/statistics HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        )
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"Connection: close" in answer
    assert taken == []


def posted_from(server, address):
    head = b"POST /api/v1/statistics HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"
    place = ("127.0.0.1", server.addresses[0].port)
    with socket.create_connection(place, timeout=5, source_address=(address, 0)) as sock:
        sock.sendall(head)
        return int(sock.recv(4096).split()[1])


def test_what_a_mesh_hands_on_from_outside_is_not_local():
    with taking() as server:
        assert [posted_from(server, f"127.0.0.{n}") for n in (1, 6)] == [202, 403]


@pytest.mark.parametrize("chunked", [False, True])
def test_too_large_a_body_is_refused_with_an_answer(chunked):
    taken = []
    size = 3_000_000
    small = StatisticsSettings(max_bytes=1_000_000)
    with taking(lambda *each: taken.append(each), statistics=small) as server:
        body = iter([b"x" * 1000] * (size // 1000)) if chunked else b"x" * size
        try:
            status, _, text = ask(server, "POST", "/api/v1/statistics", body)
        except (ConnectionResetError, BrokenPipeError):
            pytest.fail("cut off without an answer")
    assert (status, text) == (413, b"the body may have 1000000 bytes\n")
    assert taken == []


def test_bodies_are_bounded_together():
    small = StatisticsSettings(max_bytes=1_000_000)
    head = b"POST /api/v1/statistics HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n"
    with taking(statistics=small) as server, raw(server) as first, raw(server) as second:
        first.sendall(head + b"x" * 800_000)
        time.sleep(0.2)
        second.sendall(head + b"x" * 800_000)
        assert second.recv(100).startswith(b"HTTP/1.1 503 ")
        first.sendall(b"x" * 100_000)
        assert first.recv(100).startswith(b"HTTP/1.1 202 ")


def test_statistics_may_be_switched_off():
    off = StatisticsSettings(http=False)
    with taking(statistics=off) as server:
        assert ask(server, "POST", "/api/v1/statistics", b"{}")[0] == 404


def test_a_slow_taker_does_not_hold_up_a_scrape():
    release = threading.Event()
    with taking(lambda *_: release.wait(5)) as server:
        poster = threading.Thread(target=ask, args=(server, "POST", "/api/v1/statistics", b"{}"))
        poster.start()
        begun = time.monotonic()
        assert ask(server, "GET", "/metrics")[0] == 200
        assert time.monotonic() - begun < 1
        release.set()
        poster.join()


# Addresses


def test_several_addresses_of_both_families():
    addresses = ("127.0.0.1:0", "[::1]:0", ":0")
    with serving(web={"listen_addresses": addresses}) as server:
        found = [(peer.address, peer.port) for peer in server.addresses]
        for host, port in (("127.0.0.1", found[0][1]), ("::1", found[1][1])):
            socket.create_connection((host, port), timeout=5).close()
        for host in ("127.0.0.1", "::1"):
            socket.create_connection((host, found[2][1]), timeout=5).close()


def test_an_ipv4_peer_of_a_socket_for_both_families_is_local():
    with taking(web={"listen_addresses": (":0",)}) as server:
        assert ask(server, "POST", "/api/v1/statistics", b"{}")[0] == 202


def test_a_taken_port_is_an_error_with_a_remedy():
    with serving() as server:
        taken = f"127.0.0.1:{port_of(server)}"
        with (
            pytest.raises(ConfigError, match=r"cannot listen on .*errno 98.*another port"),
            serving(web={"listen_addresses": ("127.0.0.1:0", taken)}),
        ):
            pass


@pytest.mark.parametrize("address", ["192.0.2.1:0", "no-such-host.invalid:0"])
def test_an_address_of_somebody_else_is_an_error(address):
    with (
        pytest.raises(ConfigError, match="cannot listen on"),
        serving(web={"listen_addresses": (address,)}),
    ):
        pass


def test_stop_ends_at_once_and_leaves_nothing():
    before = threading.active_count()
    with serving() as server, raw(server) as sock:
        sock.sendall(GET % b"/-/healthy")
        assert sock.recv(10)
        port = port_of(server)
        begun = time.monotonic()
        server.stop()
        assert time.monotonic() - begun < 0.5
        assert receive_all(sock).endswith(b"healthy\n")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=1)
    assert threading.active_count() == before


def test_the_telemetry_path_may_be_another():
    with serving(web={"telemetry_path": "/custom/metrics"}) as server:
        assert ask(server, "GET", "/custom/metrics")[0] == 200
        assert ask(server, "GET", "/metrics")[0] == 404
        assert b'href="/custom/metrics"' in ask(server, "GET", "/")[2]


@pytest.mark.parametrize("path", [b"/", b"/metrics", b"/api/v1/connections", b"/nowhere"])
def test_a_page_whose_name_points_to_the_agent_reads_nothing(server, path):
    asked = b"GET %b HTTP/1.1\r\nHost: %b\r\nConnection: close\r\n\r\n"
    answer = say(server, asked % (path, b"evil.example:10920"))
    assert answer.startswith(b"HTTP/1.1 421 ")
    assert not say(server, asked % (path, b"localhost")).startswith(b"HTTP/1.1 421 ")


def events(server, count: int, path: str = "/api/v1/stream") -> list[tuple[str, dict]]:
    """Read the first events of a stream."""
    found = []
    with connected(server) as client:
        client.request("GET", path)
        response = client.getresponse()
        assert response.getheader("Content-Type") == "text/event-stream"
        assert response.getheader("Transfer-Encoding") == "chunked"
        name = ""
        while len(found) < count:
            line = response.readline().decode()
            if line.startswith("event: "):
                name = line.removeprefix("event: ").strip()
            elif line.startswith("data: "):
                found.append((name, json.loads(line.removeprefix("data: "))))
    return found


def test_a_stream_begins_with_everything_and_goes_on_with_what_changed(server):
    first, second = events(server, 2)
    assert first[0] == "all"
    _, _, body = ask(server, "GET", "/api/v1/connections")
    assert first[1]["connections"] == json.loads(body)["connections"]
    assert second[0] == "changes"
    assert (second[1]["connections"], second[1]["gone"]) == ([], [])


def test_only_so_many_watch_at_once_and_who_leaves_makes_room():
    with serving() as server, ExitStack() as stack:
        for _ in range(MOST_WATCHERS):
            client = stack.enter_context(connected(server))
            client.request("GET", "/api/v1/stream")
            response = client.getresponse()
            assert response.status == 200
            response.readline()
        assert ask(server, "GET", "/api/v1/stream")[0] == 503
        assert ask(server, "GET", "/metrics")[0] == 200
        stack.pop_all().close()
        until = time.monotonic() + 10
        while ask(server, "HEAD", "/api/v1/stream")[0] != 200:
            assert time.monotonic() < until
            time.sleep(0.2)


def test_a_head_of_a_stream_ends(server):
    assert ask(server, "HEAD", "/api/v1/stream")[0] == 200


def test_a_reader_of_http_1_0_gets_a_stream_too(server):
    with raw(server) as sock:
        sock.sendall(b"GET /api/v1/stream HTTP/1.0\r\nHost: a\r\n\r\n")
        received = b""
        while b"event: all\ndata: {" not in received:
            part = sock.recv(65536)
            assert part
            received += part


def test_a_server_with_watchers_stops_at_once():
    with serving() as server, connected(server) as client:
        client.request("GET", "/api/v1/stream")
        client.getresponse().readline()
        begun = time.monotonic()
        server.stop()
        assert time.monotonic() - begun < 1.0


@pytest.mark.parametrize(
    "path", ["/assets/", "/assets/../page.py", "/assets/page.py", "/assets/x.js"]
)
def test_only_the_page_s_own_files_are_served(server, path):
    assert ask(server, "GET", path)[0] == 404


def test_scripts_are_served_as_scripts(server):
    status, headers, body = ask(server, "GET", "/assets/page.js")
    assert (status, headers["Content-Type"]) == (200, "text/javascript; charset=utf-8")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert b"import" in body
