"""One bounded HTTP request: total deadline, size limit, no redirects, no proxies, no surprises.

`http.client` parses the answer; the socket beneath it is ours, because the deadline of the
standard library is per `recv`: a server that drips a byte a second holds `urllib` for ever, and so
it does the usual libraries on top of it. Here every byte is awaited against one moment.
A connection serves one request: it is made to the client's own host, every ten seconds or so.
"""

from __future__ import annotations

__all__ = ["Response", "fetch"]

import http.client
import io
import ipaddress
import socket
import ssl
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from exporter.errors import SourceDecodeError, SourceUnavailableError
from exporter.sources.credentials import (
    NO_CREDENTIALS,
    Credentials,
    authorization,
    tls_context,
)
from exporter.sources.names import addresses_within

if TYPE_CHECKING:
    from collections.abc import Mapping

CHUNK_BYTES = 64 * 1024
DEFAULT_PORTS = {"http": 80, "https": 443}
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
    just after its last byte came: what the answer tells was measured in between.
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
            return _exchange(parts, sent_headers, body, _DeadlineSocket(sock, deadline), max_bytes)
    except ssl.SSLCertVerificationError as error:
        raise SourceUnavailableError(
            f"cannot trust {where}: {error.verify_message}; set `ca_file`"
        ) from error
    except TimeoutError as error:
        raise deadline.error() from error
    except http.client.RemoteDisconnected as error:
        raise SourceUnavailableError(
            f"cannot read {where}: it closed the connection without an answer"
        ) from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise SourceUnavailableError(f"cannot read {where}: {reason}") from error
    except (http.client.HTTPException, ValueError) as error:
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


class _DeadlineSocket:
    """The part of a socket that `http.client` uses, each step against the one deadline."""

    def __init__(self, sock: socket.socket, deadline: _Deadline) -> None:
        self._sock = sock
        self._deadline = deadline

    def sendall(self, data: bytes) -> None:
        # CPython's sendall takes the timeout as the total of all its parts.
        self._sock.settimeout(self._deadline.left())
        self._sock.sendall(data)

    def receive_into(self, buffer: Any) -> int:
        self._sock.settimeout(self._deadline.left())
        return self._sock.recv_into(buffer)

    def makefile(self, *_: object) -> io.BufferedReader:
        return io.BufferedReader(_DeadlineStream(self))

    def close(self) -> None:
        """Leave the socket open: `http.client` closes before it has read the body."""


class _DeadlineStream(io.RawIOBase):
    def __init__(self, sock: _DeadlineSocket) -> None:
        self._sock = sock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._sock.receive_into(buffer)


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
        # Link-local addresses are where clouds serve credentials: no Kafka client listens there.
        if ipaddress.ip_address(address).is_link_local:
            raise SourceUnavailableError(
                f"cannot read from {host!r}: {address} is a link-local address"
            )
        try:
            return socket.create_connection((address, port), timeout=deadline.left())
        except TimeoutError:
            raise
        except OSError as error:
            refusal = error
    raise refusal or SourceUnavailableError(f"cannot read from {host!r}: it has no address")


def _exchange(
    parts: SplitResult,
    headers: Mapping[str, str],
    body: bytes | None,
    sock: _DeadlineSocket,
    max_bytes: int,
) -> Response:
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
    connection.default_port = DEFAULT_PORTS[parts.scheme]
    connection.sock = sock
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    encoded = {name: value.encode() for name, value in headers.items()}
    begun_at = time.monotonic()
    connection.request("GET" if body is None else "POST", target, body, encoded)
    response = connection.getresponse()
    where = _where(parts)
    _check_head(response, where, max_bytes)
    content = _read(response, where, max_bytes)
    return Response(
        where=where,
        content_type=response.headers.get_content_type(),
        body=content,
        begun_at=begun_at,
        ended_at=time.monotonic(),
    )


def _check_head(response: http.client.HTTPResponse, where: str, max_bytes: int) -> None:
    status = response.status
    if 300 <= status < 400:  # noqa: PLR2004 (the class of redirects)
        raise SourceUnavailableError(
            f"{where} redirects ({status}), which is not followed; give the final URL"
        )
    if status != http.client.OK:
        advice = _ADVICE.get(status, "look into its own log")
        raise SourceUnavailableError(f"{where} answered {status}: {advice}")
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise SourceDecodeError(f"{where} answered compressed though it was not asked to")
    if response.length is not None and response.length > max_bytes:
        raise _too_large(where, max_bytes)


def _read(response: http.client.HTTPResponse, where: str, max_bytes: int) -> bytes:
    content = bytearray()
    while chunk := response.read(CHUNK_BYTES):
        content += chunk
        if len(content) > max_bytes:
            raise _too_large(where, max_bytes)
    if response.length:
        # `read` with a size does not tell a cut connection from the end.
        raise SourceDecodeError(f"{where} broke off {response.length} bytes before its end")
    return bytes(content)


def _too_large(where: str, max_bytes: int) -> SourceDecodeError:
    return SourceDecodeError(
        f"{where} answered with more than {max_bytes} bytes; raise `max_bytes` or ask for less"
    )
