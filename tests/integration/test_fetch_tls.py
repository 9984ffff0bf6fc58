"""A fetch over TLS: whom it trusts, what it shows, and that certificates may be renewed."""

from __future__ import annotations

import datetime as dt
import http.server
import ipaddress
import socket
import ssl
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from exporter.config.credentials import Credentials
from exporter.errors import SourceUnavailableError
from exporter.http.fetch import fetch

DAY = dt.timedelta(days=1)


class Authority:
    """A certificate authority for one test."""

    def __init__(self, folder, name):
        self.folder = folder
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.file = folder / f"{name}.pem"
        certificate = self._certificate(self.name, self.key.public_key(), is_ca=True)
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, name, host="127.0.0.1"):
        """Return files of a certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._certificate(subject, key.public_key(), host=host)
        cert_file, key_file = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        cert_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return str(cert_file), str(key_file)

    def _certificate(self, subject, public_key, *, is_ca=False, host=None):
        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + DAY)
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        )
        if host is not None:
            address = x509.IPAddress(ipaddress.ip_address(host))
            builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
        return builder.sign(self.key, hashes.SHA256())


class Page(http.server.BaseHTTPRequestHandler):
    """Answers with who the client is."""

    def do_GET(self):
        peer = self.connection.getpeercert()
        name = dict(pair[0] for pair in peer["subject"])["commonName"] if peer else "nobody"
        self.send_response(200)
        self.send_header("Content-Length", str(len(name)))
        self.end_headers()
        self.wfile.write(name.encode())

    def log_message(self, *_):
        """Say nothing."""


@contextmanager
def serving(cert_file, key_file, *, client_ca=None, minimum=None, maximum=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if maximum is not None:
        context.minimum_version, context.maximum_version = minimum, maximum
    context.load_cert_chain(cert_file, key_file)
    if client_ca is not None:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    server = http.server.HTTPServer(("127.0.0.1", 0), Page)
    server.handle_error = lambda *_: None
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}/metrics"
    finally:
        server.shutdown()
        thread.join(5)
        server.server_close()


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path, "ca")


def get(url, **credentials):
    return fetch(
        url, timeout_seconds=2, max_bytes=1000, credentials=Credentials(**credentials)
    ).body.decode()


def test_a_certificate_of_the_ca_file_is_trusted(authority):
    with serving(*authority.issue("server")) as url:
        assert get(url, ca_file=str(authority.file)) == "nobody"


def test_a_certificate_of_nobody_known_is_not_trusted(authority, tmp_path):
    with serving(*authority.issue("server")) as url:
        for credentials in ({}, {"ca_file": str(Authority(tmp_path, "other").file)}):
            with pytest.raises(SourceUnavailableError, match=r"cannot trust .*; set `ca_file`"):
                get(url, **credentials)


def test_a_certificate_of_another_host_is_not_trusted(authority):
    with (
        serving(*authority.issue("server", host="127.0.0.9")) as url,
        pytest.raises(SourceUnavailableError, match=r"cannot trust .*IP address mismatch"),
    ):
        get(url, ca_file=str(authority.file))


def test_a_client_certificate_is_shown(authority):
    cert_file, key_file = authority.issue("brokerwire")
    with serving(*authority.issue("server"), client_ca=str(authority.file)) as url:
        shown = get(url, ca_file=str(authority.file), cert_file=cert_file, key_file=key_file)
    assert shown == "brokerwire"


def test_a_missing_client_certificate_is_unavailable(authority):
    with (
        serving(*authority.issue("server"), client_ca=str(authority.file)) as url,
        pytest.raises(SourceUnavailableError, match="cannot read https://"),
    ):
        get(url, ca_file=str(authority.file))


def test_renewed_files_are_used_at_the_next_request(authority, tmp_path):
    """A certificate authority that is replaced while we run."""
    trusted = tmp_path / "trusted.pem"
    with serving(*authority.issue("server")) as url:
        trusted.write_bytes(Authority(tmp_path, "old").file.read_bytes())
        with pytest.raises(SourceUnavailableError):
            get(url, ca_file=str(trusted))
        trusted.write_bytes(authority.file.read_bytes())
        assert get(url, ca_file=str(trusted)) == "nobody"


def test_a_key_that_does_not_fit_is_named(authority):
    cert_file, _ = authority.issue("brokerwire")
    _, key_file = authority.issue("another")
    with (
        serving(*authority.issue("server")) as url,
        pytest.raises(SourceUnavailableError, match="check `ca_file`, `cert_file` and `key_file`"),
    ):
        get(url, ca_file=str(authority.file), cert_file=cert_file, key_file=key_file)


def test_a_locked_key_is_named_and_nobody_is_asked_for_its_password(authority):
    cert_file, key_file = authority.issue("brokerwire")
    key = serialization.load_pem_private_key(Path(key_file).read_bytes(), None)
    Path(key_file).write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"hunter2-canary"),
        )
    )
    with (
        serving(*authority.issue("server")) as url,
        pytest.raises(SourceUnavailableError, match="check `ca_file`, `cert_file` and `key_file`"),
    ):
        get(url, ca_file=str(authority.file), cert_file=cert_file, key_file=key_file)


def test_a_handshake_that_never_comes_is_cut_off(authority):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/"
        begun = time.monotonic()
        with pytest.raises(SourceUnavailableError, match="did not answer in full within 2 s"):
            get(url, ca_file=str(authority.file))
        assert time.monotonic() - begun < 2.5


def test_plain_http_behind_https_is_unavailable(authority):
    server = http.server.HTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    try:
        with pytest.raises(SourceUnavailableError, match="cannot read https://"):
            get(f"https://127.0.0.1:{server.server_port}/", ca_file=str(authority.file))
    finally:
        thread.join(5)
        server.server_close()
