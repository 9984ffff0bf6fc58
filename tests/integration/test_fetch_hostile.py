"""A fetch against servers that do what no server should, on real sockets."""

from __future__ import annotations

import gzip
import socket
import struct
import threading
import time
import tracemalloc
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from exporter.config.credentials import Credentials
from exporter.errors import SourceDecodeError, SourceError, SourceUnavailableError
from exporter.http.fetch import fetch

SECRET = "hunter2-canary"
OK = b"HTTP/1.1 200 OK\r\n"
TIMEOUT = 0.5


@contextmanager
def serving(behave, *, family=socket.AF_INET, address="127.0.0.1"):
    """Run `behave(connection, request)` for each connection; yield the URL and the requests."""
    requests = []
    done = threading.Event()
    listener = socket.create_server((address, 0), family=family)

    def serve(connection):
        with connection:
            connection.settimeout(10)
            try:
                request = _read_request(connection)
                requests.append(request)
                behave(connection, done)
            except OSError:
                # The client has gone, as it should.
                pass

    def accept():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threads.append(threading.Thread(target=serve, args=(connection,)))
            threads[-1].start()

    threads = []
    accepting = threading.Thread(target=accept)
    accepting.start()
    host = f"[{address}]" if ":" in address else address
    try:
        yield f"http://{host}:{listener.getsockname()[1]}/metrics", requests
    finally:
        done.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for thread in (accepting, *threads):
            thread.join(10)


def _read_request(connection):
    request = b""
    while b"\r\n\r\n" not in request:
        chunk = connection.recv(65536)
        if not chunk:
            return request
        request += chunk
    head, _, body = request.partition(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            while len(body) < int(line.split(b":")[1]):
                body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def sends(*parts):
    def behave(connection, _done):
        for part in parts:
            connection.sendall(part)

    return behave


def drips(head, pause=0.05):
    def behave(connection, done):
        connection.sendall(head)
        while not done.wait(pause):
            connection.sendall(b"x")

    return behave


def floods(head, block=b"x" * 65536):
    def behave(connection, done):
        connection.sendall(head)
        while not done.is_set():
            connection.sendall(block)

    return behave


def hangs(head=b""):
    def behave(connection, done):
        connection.sendall(head)
        done.wait(10)

    return behave


def resets(head):
    def behave(connection, _done):
        connection.sendall(head)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    return behave


def get(url, *, max_bytes=1_000_000, **more):
    return fetch(url, timeout_seconds=TIMEOUT, max_bytes=max_bytes, **more)


def page(body, *headers):
    head = b"".join(header + b"\r\n" for header in headers)
    return OK + head + f"Content-Length: {len(body)}\r\n\r\n".encode() + body


def test_a_good_answer_arrives_whole_and_dated():
    before = time.monotonic()
    with serving(sends(page(b"a 1\n", b"Content-Type: text/plain; version=0.0.4"))) as (url, asked):
        response = get(url + "?name[]=a", headers={"Accept": "text/plain"})
    assert (
        response.body,
        response.text(),
        response.content_type,
    ) == (b"a 1\n", "a 1\n", "text/plain")
    assert before <= response.begun_at <= response.ended_at <= time.monotonic()
    (request,) = asked
    line, *headers = request.decode().split("\r\n")
    assert line == "GET /metrics?name[]=a HTTP/1.1"
    assert {"Accept-Encoding: identity", "Connection: close", "Accept: text/plain"} <= set(headers)


def test_the_begin_is_after_connecting_so_a_slow_handshake_widens_nothing():
    def behave(connection, _done):
        time.sleep(0.1)
        connection.sendall(page(b"x"))

    with serving(behave) as (url, _):
        response = get(url)
    assert 0.09 < response.ended_at - response.begun_at < 0.4


def test_a_body_is_posted():
    with serving(sends(page(b"[]"))) as (url, asked):
        get(url, body=b"[1]", headers={"Content-Type": "application/json"})
    head, _, body = asked[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /metrics HTTP/1.1")
    assert b"Content-Length: 3" in head
    assert body == b"[1]"


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(OK + b"\r\nabc", id="until-close"),
        pytest.param(b"HTTP/1.0 200 OK\r\n\r\nabc", id="http-1.0"),
        pytest.param(
            OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n2;x=y\r\nbc\r\n0\r\n\r\n",
            id="chunked",
        ),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" + page(b"abc"), id="continue"),
        pytest.param(page(b"abc", b"Content-Encoding: identity"), id="identity"),
    ],
)
def test_all_ways_to_end_a_body_are_read(answer):
    with serving(sends(answer)) as (url, _):
        assert get(url).body == b"abc"


def test_ipv6_is_spoken():
    with serving(sends(page(b"x")), family=socket.AF_INET6, address="::1") as (url, asked):
        assert get(url).body == b"x"
    assert f"Host: {url.split('/')[2]}".encode() in asked[0]


def test_a_name_is_looked_up():
    with serving(sends(page(b"x"))) as (url, _):
        assert get(url.replace("127.0.0.1", "localhost")).body == b"x"


def test_proxies_of_the_environment_are_not_used(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with serving(sends(page(b"x"))) as (url, _):
        assert get(url).body == b"x"


@pytest.mark.parametrize(
    "behave",
    [
        pytest.param(hangs(), id="silent"),
        pytest.param(hangs(b"HTTP/1.1 200"), id="hangs-in-status"),
        pytest.param(hangs(OK + b"X-A: 1\r\nX-"), id="hangs-in-headers"),
        pytest.param(hangs(OK + b"Content-Length: 9\r\n\r\nabc"), id="hangs-in-body"),
        pytest.param(drips(b""), id="drips-status"),
        pytest.param(drips(OK + b"X-A: "), id="drips-header"),
        pytest.param(drips(OK + b"\r\n"), id="drips-body"),
        pytest.param(drips(OK + b"Content-Length: 999999\r\n\r\n"), id="drips-known-body"),
        pytest.param(drips(OK + b"Transfer-Encoding: chunked\r\n\r\n"), id="drips-chunk-size"),
        pytest.param(drips(OK + b"Transfer-Encoding: chunked\r\n\r\nfffff\r\n"), id="drips-chunk"),
        pytest.param(floods(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100), id="continues-for-ever"),
    ],
)
def test_whatever_is_not_done_in_time_is_cut_off(behave):
    with serving(behave) as (url, _):
        begun = time.monotonic()
        with pytest.raises(SourceUnavailableError, match=r"did not answer in full within 0\.5 s"):
            get(url)
        assert TIMEOUT * 0.9 < time.monotonic() - begun < TIMEOUT + 0.5


def test_a_server_that_does_not_read_a_large_post_is_cut_off():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        begun = time.monotonic()
        with pytest.raises(SourceUnavailableError, match="did not answer in full"):
            get(url, body=b"x" * 50_000_000)
        assert time.monotonic() - begun < TIMEOUT + 0.5


def test_a_full_backlog_is_cut_off():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        with socket.create_connection(address), socket.socket() as second:
            second.setblocking(False)
            second.connect_ex(address)
            with pytest.raises(SourceUnavailableError, match="did not answer in full"):
                get(f"http://127.0.0.1:{address[1]}/")


@pytest.mark.parametrize(
    ("behave", "message"),
    [
        pytest.param(floods(OK + b"\r\n"), "more than 1000000 bytes; raise `max_by", id="endless"),
        pytest.param(
            sends(OK + b"Content-Length: 52428800\r\n\r\n"), "more than 1000000 bytes", id="50-mb"
        ),
        pytest.param(
            floods(OK + b"Transfer-Encoding: chunked\r\n\r\nffffffff\r\n"),
            "more than 1000000 bytes",
            id="one-chunk",
        ),
        pytest.param(
            floods(OK, b"X-A: " + b"b" * 1000 + b"\r\n"), "proper HTTP", id="endless-headers"
        ),
        pytest.param(floods(OK + b"X-A: "), "proper HTTP", id="endless-header"),
        pytest.param(floods(b"HTTP/1.1 200 "), "proper HTTP", id="endless-status"),
        pytest.param(
            floods(OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n", b"X-A: b\r\n" * 100),
            "proper HTTP",
            id="endless-trailers",
        ),
        pytest.param(sends(b"SSH-2.0-OpenSSH_9\r\n"), "proper HTTP", id="ssh"),
        pytest.param(sends(b"\x15\x03\x01\x00\x02\x02\x16"), "proper HTTP", id="tls"),
        pytest.param(sends(b"HTTP/1.1 2x0 OK\r\n\r\n"), "proper HTTP", id="status-text"),
        pytest.param(
            sends(OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"), "proper HTTP", id="chunk-size"
        ),
        pytest.param(
            sends(OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab"), "proper HTTP", id="chunk-cut"
        ),
        pytest.param(
            sends(OK + b"Content-Length: 10\r\n\r\nabc"), "broke off 7 bytes before", id="cut"
        ),
        pytest.param(
            sends(page(gzip.compress(b"a 1\n"), b"Content-Encoding: gzip")),
            "answered compressed though it was not asked to",
            id="gzip",
        ),
    ],
)
def test_what_is_no_proper_answer_is_a_decode_error(behave, message):
    with serving(behave) as (url, _), pytest.raises(SourceDecodeError, match=message):
        get(url)


@pytest.mark.parametrize(
    ("behave", "message"),
    [
        pytest.param(sends(b""), "it closed the connection without an answer", id="closed"),
        pytest.param(resets(b""), "Connection reset", id="at-once"),
        pytest.param(resets(OK + b"X-A"), "Connection reset", id="in-headers"),
        pytest.param(
            resets(OK + b"Content-Length: 10\r\n\r\nabc"), "Connection reset", id="in-body"
        ),
    ],
)
def test_a_broken_connection_is_unavailable(behave, message):
    with serving(behave) as (url, _), pytest.raises(SourceUnavailableError, match=message):
        get(url)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (301, r"redirects \(301\), which is not followed; give the final URL"),
        (302, "not followed"),
        (307, "not followed"),
        (308, "not followed"),
        (401, "answered 401: it asks for credentials; set `username` and `password_file`"),
        (403, "answered 403: it refuses these credentials"),
        (404, "answered 404: there is no such page; check the path"),
        (405, "answered 405: it does not serve this method"),
        (500, "answered 500: look into its own log"),
        (503, "answered 503"),
        (204, "answered 204"),
        (206, "answered 206"),
        (999, "answered 999"),
    ],
)
def test_another_status_says_what_to_do(status, message):
    head = f"HTTP/1.1 {status} Whatever\r\nContent-Length: 0\r\n\r\n".encode()
    with serving(sends(head)) as (url, _), pytest.raises(SourceUnavailableError, match=message):
        get(url)


def test_a_redirect_is_not_followed_and_carries_no_credentials_elsewhere(tmp_path):
    token = tmp_path / "token"
    token.write_text(SECRET)
    with serving(sends(page(b"x"))) as (target, asked_there):
        head = f"HTTP/1.1 302 Found\r\nLocation: {target}?{SECRET}\r\n\r\n".encode()
        with serving(sends(head)) as (url, _), pytest.raises(SourceUnavailableError) as caught:
            get(url, credentials=Credentials(bearer_token_file=str(token)))
    assert asked_there == []
    assert SECRET not in str(caught.value)


def test_credentials_are_read_anew_for_each_request(tmp_path):
    token, password = tmp_path / "token", tmp_path / "password"
    password.write_text("p\xe4ss:word\n")
    with serving(sends(page(b"x"))) as (url, asked):
        for word in ("one", "two\n"):
            token.write_text(word)
            get(url, credentials=Credentials(bearer_token_file=str(token)))
        get(url, credentials=Credentials(username="u", password_file=str(password)))
        get(url, credentials=Credentials(username="u"))
    lines = [
        line
        for request in asked
        for line in request.split(b"\r\n")
        if line.startswith(b"Authorization")
    ]
    assert lines == [
        b"Authorization: Bearer one",
        b"Authorization: Bearer two",
        b"Authorization: Basic dTpww6Rzczp3b3Jk",
        b"Authorization: Basic dTo=",
    ]


@pytest.mark.parametrize(
    "behave",
    [
        pytest.param(sends(b"HTTP/1.1 401 " + SECRET.encode() + b"\r\n\r\n"), id="reason"),
        pytest.param(sends(SECRET.encode() + b"\r\n\r\n"), id="status-line"),
        pytest.param(sends(OK + SECRET.encode() + b"\r\n\r\n" + SECRET.encode()), id="header"),
        pytest.param(hangs(OK), id="hangs"),
        pytest.param(resets(OK), id="reset"),
    ],
)
def test_no_error_quotes_the_server_or_the_credentials(tmp_path, behave):
    token = tmp_path / "token"
    token.write_text(SECRET)
    with serving(behave) as (url, _):
        try:
            get(f"{url}?key={SECRET}", credentials=Credentials(bearer_token_file=str(token)))
        except SourceError as error:
            chain = []
            cause: BaseException | None = error
            while cause is not None:
                chain.append(cause)
                cause = cause.__cause__
            assert not any(SECRET in str(one) for one in chain)


def test_memory_stays_within_the_limit():
    with serving(floods(OK + b"\r\n")) as (url, _):
        tracemalloc.start()
        try:
            with pytest.raises(SourceDecodeError):
                get(url, max_bytes=4_000_000)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 12_000_000


def test_no_descriptor_is_left_open():
    def descriptors():
        return len(list(Path("/proc/self/fd").iterdir()))

    before = descriptors()
    for behave in (
        sends(page(b"x")),
        hangs(OK),
        resets(OK),
        sends(OK + b"\r\n" + b"x" * 2_000_000),
    ):
        with serving(behave) as (url, _), suppress(SourceError):
            get(url)
    assert before == descriptors()
