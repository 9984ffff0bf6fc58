"""One bounded HTTP request: total deadline, size limit, no redirects, no proxies, no surprises.

h11 parses the answer, as it does the server's requests; the socket is ours, because the timeouts of
the standard library, urllib3 and httpx are per `recv`: a server that drips a byte a second holds
them for ever. Here every byte is awaited against one moment.
A connection serves one request: it is made to the client's own host, every ten seconds or so.
"""

from __future__ import annotations

__all__ = ["Response", "fetch"]

import ipaddress
import socket
import ssl
import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

import h11

from exporter.errors import SourceDecodeError, SourceUnavailableError
from exporter.http.credentials import (
    NO_CREDENTIALS,
    authorization,
    tls_context,
)
from exporter.http.names import addresses_within

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from exporter.config.credentials import Credentials

CHUNK_BYTES = 64 * 1024
# Of the answer's status line and headers, or of one line of chunked encoding.
HEAD_BYTES = 64 * 1024
DEFAULT_PORTS = {"http": 80, "https": 443}
# Where clouds serve credentials, beside link-local addresses: Azure, Alibaba, Oracle,
# AWS and Google over IPv6. No Kafka client listens there.
_CLOUD_METADATA = frozenset(
    {"168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"}
)
_ADVICE = {
    401: "it asks for credentials; set `username` and `password_file`, or `bearer_token_file`",
    403: "it refuses these credentials",
    404: "there is no such page; check the path of the URL",
    405: "it does not serve this method; check the URL and `format`",
    407: "a proxy asks for credentials; give the client's own address",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A whole answer with status 200.

    `begun_at` (monotonic) is just before the request went out on the open connection, `ended_at`
    just after its last byte: the figures were measured in between.
    """

    where: str
    content_type: str
    body: bytes
    begun_at: float
    ended_at: float

    def text(self) -> str:
        """Return the body as text.

        Raises:
            SourceDecodeError: it is not UTF-8.
        """
        try:
            return self.body.decode()
        except UnicodeDecodeError as error:
            raise SourceDecodeError(
                f"{self.where} answered with bytes that are not UTF-8 text (at byte {error.start})"
            ) from None


def fetch(
    url: str,
    *,
    timeout_seconds: float,
    max_bytes: int,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    credentials: Credentials = NO_CREDENTIALS,
) -> Response:
    """Get a page, or post `body` to it, within `timeout_seconds` from the name to the last byte.

    Raises:
        SourceUnavailableError: refused, timed out, or answered with another status than 200.
        SourceDecodeError: the answer is too large, cut short, compressed, or no HTTP.
    """
    parts = _checked(url)
    where = _where(parts)
    deadline = _Deadline(where, timeout_seconds)
    sent_headers = {"Accept-Encoding": "identity", "Connection": "close", **(headers or {})}
    sent_headers |= authorization(credentials)
    try:
        with _connected(parts, credentials, deadline) as sock:
            return _exchange(parts, sent_headers, body, _Stream(sock, deadline, where), max_bytes)
    except ssl.SSLCertVerificationError as error:
        raise SourceUnavailableError(
            f"cannot trust {where}: {error.verify_message}; set `ca_file`"
        ) from error
    except TimeoutError as error:
        raise deadline.error() from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise SourceUnavailableError(f"cannot read {where}: {reason}") from error
    except (h11.ProtocolError, ValueError) as error:
        # The text of these errors may quote what the server sent, or our own headers.
        raise SourceDecodeError(
            f"{where} does not answer with proper HTTP ({type(error).__name__})"
        ) from None


class _Deadline:
    def __init__(self, where: str, seconds: float) -> None:
        self._where = where
        self._seconds = seconds
        self._at = time.monotonic() + seconds

    def left(self) -> float:
        left = self._at - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def error(self) -> SourceUnavailableError:
        return SourceUnavailableError(
            f"{self._where} did not answer in full within {self._seconds:g} s; "
            "raise `timeout` if it is only slow"
        )


def _checked(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        port_is_good = parts.port != 0
    except ValueError:
        raise SourceUnavailableError(
            "cannot read a URL of the configuration: it has no proper host and port"
        ) from None
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname or not port_is_good:
        raise SourceUnavailableError(
            f"cannot read {_where(parts)}: a URL starts with http:// or https:// and a host"
        )
    if "@" in parts.netloc:
        raise SourceUnavailableError(
            f"cannot read {_where(parts)}: credentials belong into `username` and "
            "`password_file`, not into the URL"
        )
    if any(character <= " " or character == "\x7f" for character in url):
        raise SourceUnavailableError(
            f"cannot read {_where(parts)}: blanks and control characters must be percent-encoded"
        )
    return parts


def _where(parts: SplitResult) -> str:
    """Return the URL without what may be secret: user, query and fragment."""
    return repr(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}")[1:-1]


def _connected(parts: SplitResult, credentials: Credentials, deadline: _Deadline) -> socket.socket:
    host = parts.hostname or ""
    sock = _connect(host, parts.port or DEFAULT_PORTS[parts.scheme], deadline)
    if parts.scheme == "http":
        return sock
    try:
        context = tls_context(credentials)
        # Here, too, CPython takes the timeout as the total of the handshake.
        sock.settimeout(deadline.left())
        return context.wrap_socket(sock, server_hostname=host)
    except BaseException:
        sock.close()
        raise


def _connect(host: str, port: int, deadline: _Deadline) -> socket.socket:
    refusal: OSError | None = None
    for address in addresses_within(host, deadline.left()):
        if ipaddress.ip_address(address).is_link_local or address in _CLOUD_METADATA:
            raise SourceUnavailableError(
                f"cannot read from {host!r}: {address} is where clouds serve credentials"
            )
        try:
            return socket.create_connection((address, port), timeout=deadline.left())
        except TimeoutError:
            raise
        except OSError as error:
            refusal = error
    raise refusal or SourceUnavailableError(f"cannot read from {host!r}: it has no address")


class _Stream:
    """A connection's two directions, each step against the one deadline."""

    def __init__(self, sock: socket.socket, deadline: _Deadline, where: str) -> None:
        self._sock = sock
        self._deadline = deadline
        self._where = where

    def send(self, data: bytes) -> None:
        # CPython's sendall takes the timeout as the total of all its parts.
        self._sock.settimeout(self._deadline.left())
        self._sock.sendall(data)

    def events(self, connection: h11.Connection) -> Iterator[h11.Event]:
        """Yield what comes, up to the end of the answer."""
        begun = False
        while not isinstance(event := connection.next_event(), h11.EndOfMessage):
            if isinstance(event, h11.Event):
                yield event
                continue
            self._sock.settimeout(self._deadline.left())
            data = self._sock.recv(CHUNK_BYTES)
            if not (data or begun):
                raise SourceUnavailableError(
                    f"cannot read {self._where}: it closed the connection without an answer"
                )
            begun = True
            connection.receive_data(data)


def _exchange(
    parts: SplitResult,
    headers: Mapping[str, str],
    body: bytes | None,
    stream: _Stream,
    max_bytes: int,
) -> Response:
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES)
    where = _where(parts)
    begun_at = time.monotonic()
    for event in _request(parts, headers, body):
        stream.send(connection.send(event) or b"")
    events = stream.events(connection)
    head = next(event for event in events if isinstance(event, h11.Response))
    fields = {name.decode(): value.decode("latin-1") for name, value in head.headers}
    _check_head(head.status_code, fields, where, max_bytes)
    content = _read(events, fields, where, max_bytes)
    media_type = fields.get("content-type", "").partition(";")[0].strip().lower()
    return Response(
        where=where,
        content_type=media_type if media_type.count("/") == 1 else "text/plain",
        body=content,
        begun_at=begun_at,
        ended_at=time.monotonic(),
    )


def _request(
    parts: SplitResult, headers: Mapping[str, str], body: bytes | None
) -> tuple[h11.Event, ...]:
    host = parts.netloc if parts.netloc.isascii() else parts.netloc.encode("idna").decode()
    fields = {"Host": host, **headers}
    if body is not None:
        fields["Content-Length"] = str(len(body))
    request = h11.Request(
        method="GET" if body is None else "POST",
        target=(parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
        headers=[(name.encode(), value.encode()) for name, value in fields.items()],
    )
    return (request, *((h11.Data(data=body),) if body else ()), h11.EndOfMessage())


def _check_head(status: int, fields: Mapping[str, str], where: str, max_bytes: int) -> None:
    if 300 <= status < 400:  # noqa: PLR2004 (the class of redirects)
        raise SourceUnavailableError(
            f"{where} redirects ({status}), which is not followed; give the final URL"
        )
    if status != HTTPStatus.OK:
        advice = _ADVICE.get(status, "look into its own log")
        raise SourceUnavailableError(f"{where} answered {status}: {advice}")
    if fields.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise SourceDecodeError(f"{where} answered compressed though it was not asked to")
    if int(fields.get("content-length", 0)) > max_bytes:
        raise _too_large(where, max_bytes)


def _read(
    events: Iterator[h11.Event], fields: Mapping[str, str], where: str, max_bytes: int
) -> bytes:
    content = bytearray()
    try:
        for event in events:
            if isinstance(event, h11.Data):
                content += event.data
            if len(content) > max_bytes:
                raise _too_large(where, max_bytes)
    except h11.RemoteProtocolError:
        missing = int(fields.get("content-length", 0)) - len(content)
        if missing <= 0:
            raise
        raise SourceDecodeError(f"{where} broke off {missing} bytes before its end") from None
    return bytes(content)


def _too_large(where: str, max_bytes: int) -> SourceDecodeError:
    return SourceDecodeError(
        f"{where} answered with more than {max_bytes} bytes; raise `max_bytes` or ask for less"
    )
