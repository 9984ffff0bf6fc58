"""Whatever comes over a connection, an answer goes back or the connection ends; nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import logging

import h11
from hypothesis import example, given, settings
from hypothesis import strategies as st

from exporter.errors import ConfigError
from exporter.http.conversation import Allowance, Bounds, Conversation
from exporter.http.messages import Peer, Response
from exporter.http.users import credentials_from_header
from exporter.http.web_config import WebConfig
from exporter.http.web_config_reader import read_web_config
from exporter.metrics.exposition import Format, choose_format

logging.getLogger("asyncio").setLevel(logging.WARNING)


class Script:
    """A stream that says what it is told to, in pieces, and remembers what it was told."""

    def __init__(self, pieces):
        self._pieces = [piece for piece in pieces if piece]
        self.written = b""

    async def read(self, most):
        if not self._pieces:
            return b""
        first = self._pieces.pop(0)
        if len(first) > most:
            self._pieces.insert(0, first[most:])
        return first[:most]

    async def write(self, data):
        self.written += data

    async def finish(self):
        pass

    async def discard(self, _):
        self._pieces.clear()


class App:
    """Takes ten bytes with each POST and says how many there were."""

    def __init__(self):
        self.asked = []

    async def admit(self, request):
        self.asked.append(request)
        return 10

    async def respond(self, request, body):
        assert len(body) <= 10
        assert request.method in ("POST", "PUT") or not body
        return Response(body=str(len(body)).encode())


def converse(pieces):
    stream, app, allowance = Script(pieces), App(), Allowance(100)
    talk = Conversation(app, Bounds(), allowance, Peer("127.0.0.1", 1), is_local=True)
    failure = None
    try:
        asyncio.run(talk.run(stream))
    except (h11.ProtocolError, OSError, TimeoutError) as error:
        failure = error
    assert allowance.take(100), "bytes of a body were not given back"
    return stream.written, app.asked, failure


tokens = st.sampled_from(
    [
        b"GET ", b"POST ", b"HEAD ", b"/metrics ", b"HTTP/1.1\r\n", b"HTTP/1.0\r\n", b"\r\n",
        b"Host: a\r\n", b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"hello",
        b"Transfer-Encoding: chunked\r\n", b"5\r\n", b"0\r\n\r\n", b"Connection: close\r\n",
        b"Connection: keep-alive\r\n", b"Expect: 100-continue\r\n", b"X: ", b"\x00", b":", b" ",
    ]
)  # fmt: skip
conversations = st.lists(st.one_of(tokens, tokens, tokens, st.binary(max_size=40)), max_size=40)


@settings(deadline=None, max_examples=300)
@given(conversations)
@example([b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 3])
@example([b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\n", b"x" * 20])
def test_any_bytes_are_answered_or_end_the_connection(pieces):
    written, asked, _ = converse(pieces)
    assert written == b"" or written.startswith(b"HTTP/1.1 ")
    assert written.count(b"HTTP/1.1 200 ") <= len(asked)


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_it_does_not_matter_how_bytes_are_cut(data):
    whole = (
        b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
        b"GET /b?c HTTP/1.1\r\nHost: a\r\n\r\n"
        b"POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
        b"HEAD /d HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=10)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    written, asked, failure = converse(pieces)
    assert failure is None
    assert [request.path for request in asked] == ["/a", "/b", "/c", "/d"]
    assert [part[:4] for part in written.split(b"HTTP/1.1 ")[1:]] == [b"200 "] * 4
    assert written.count(b"Content-Length: ") == 4


@given(st.text(st.characters(codec="latin-1"), max_size=200))
def test_any_accept_header_chooses_a_format(accept):
    assert choose_format(accept) in Format


@given(st.text(st.characters(codec="latin-1"), max_size=200))
def test_any_authorization_is_read_or_refused(value):
    found = credentials_from_header(value)
    assert found is None or isinstance(found[0], str)


yaml_keys = st.sampled_from(
    ["tls_server_config", "cert_file", "key_file", "cert", "basic_auth_users", "rate_limit",
     "interval", "headers", "http_server_config", "a", "client_auth_type", "min_version"]
)  # fmt: skip
yaml_text = st.one_of(
    st.text(max_size=80),
    st.recursive(
        st.one_of(st.text(max_size=8), st.integers(), st.booleans(), st.none()),
        lambda inner: st.one_of(
            st.dictionaries(yaml_keys, inner, max_size=4), st.lists(inner, max_size=3)
        ),
        max_leaves=8,
    ).map(repr),
)


@settings(deadline=None)
@given(yaml_text)
def test_any_text_is_a_web_config_or_a_config_error(text):
    with contextlib.suppress(ConfigError):
        assert isinstance(read_web_config(text, "web.yml"), WebConfig)
