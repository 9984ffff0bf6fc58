"""Servers to ask, certificates to show, clients that behave and misbehave."""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from exporter.config.settings import WebSettings
from exporter.web.server import WebServer
from tests.unit.snapshots import snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from exporter.snapshot import Snapshot


class Agent:
    """Stands for the agent: a snapshot that is always fresh, unless it is told otherwise."""

    def __init__(self, snap: Snapshot | None = None) -> None:
        self.current = snap or snapshot()
        self.age = 0.0

    def __call__(self) -> Snapshot | None:
        if self.current is None:
            return None
        return replace(self.current, at=time.monotonic() - self.age)


@contextmanager
def serving(source=None, *args, **options) -> Iterator[WebServer]:
    """Serve on a free port of the loopback interface."""
    web = {"listen_addresses": ("127.0.0.1:0",), **options.pop("web", {})}
    server = WebServer(WebSettings(**web), source or Agent(), *args, **options)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def port_of(server: WebServer) -> int:
    return server.addresses[0].port


@contextmanager
def connected(server: WebServer, **tls) -> Iterator[http.client.HTTPConnection]:
    if tls:
        client = http.client.HTTPSConnection("localhost", port_of(server), timeout=10, **tls)
    else:
        client = http.client.HTTPConnection("127.0.0.1", port_of(server), timeout=10)
    try:
        yield client
    finally:
        client.close()


def ask(server: WebServer, method: str, path: str, body=None, headers=None, **tls):
    """Ask once; return the status, the headers and the body."""
    with connected(server, **tls) as client:
        client.request(method, path, body=body, headers=headers or {})
        response = client.getresponse()
        return response.status, response.headers, response.read()


@contextmanager
def raw(server: WebServer) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port_of(server)), timeout=10) as sock:
        yield sock


def say(server: WebServer, data: bytes) -> bytes:
    """Send bytes; return all that comes back until the server has had enough."""
    with raw(server) as sock:
        sock.sendall(data)
        return receive_all(sock)


def receive_all(sock: socket.socket) -> bytes:
    parts = []
    try:
        while part := sock.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


@dataclass(frozen=True)
class Certificate:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def key_pem(self) -> str:
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode()

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Write the pair as a secret's volume does: each file whole, in place of the old one."""
        paths = folder / f"{name}.crt", folder / f"{name}.key"
        put(paths[0], self.pem)
        put(paths[1], self.key_pem)
        return paths


def put(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(text)
    beside.rename(path)


def issue(
    name: str,
    issuer: Certificate | None = None,
    *,
    days: float = 30,
    sans: tuple[str, ...] = ("localhost",),
) -> Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    names: list[x509.GeneralName] = [x509.DNSName(san) for san in sans]
    if issuer is not None:
        names.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=60))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(issuer.key if issuer else key, hashes.SHA256())
    )
    return Certificate(certificate, key)


def trusting(authority: Certificate, own: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    """Make a client's context, which may show a certificate of its own."""
    context = ssl.create_default_context(cadata=authority.pem)
    if own is not None:
        context.load_cert_chain(*own)
    return context
