"""Real handshakes: certificates that change, clients that must show one, files that are not good."""

from __future__ import annotations

import logging
import os
import socket
import ssl
import threading
import time

import pytest

from exporter.errors import ConfigError
from exporter.http import security
from tests.integration.web_support import (
    Agent,
    ask,
    connected,
    issue,
    port_of,
    put,
    raw,
    receive_all,
    serving,
    trusting,
)
from tests.unit.snapshots import fleet

AUTHORITY = issue("authority")


@pytest.fixture
def fast_checks(monkeypatch):
    """Look at the files at each connection, so that a test need not wait a second."""
    monkeypatch.setattr(security, "_CHECK_SECONDS", 0.0)


@pytest.fixture
def folder(tmp_path):
    issue("server", AUTHORITY).write(tmp_path, "server")
    (tmp_path / "ca.crt").write_text(AUTHORITY.pem)
    return tmp_path


def write(folder, text=""):
    path = folder / "web.yml"
    put(path, "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n" + text)
    return path


def tls_serving(path, **options):
    return serving(web={"config_file": str(path)}, **options)


def get(server, context, path="/metrics"):
    return ask(server, "GET", path, context=context)


def serial_of(server) -> int:
    context = trusting(AUTHORITY)
    with (
        socket.create_connection(("127.0.0.1", port_of(server)), timeout=5) as sock,
        context.wrap_socket(sock, server_hostname="localhost") as tls,
    ):
        return int(tls.getpeercert()["serialNumber"], 16)


def metric(server, name: str, context) -> float:
    text = get(server, context)[2].decode()
    (line,) = (line for line in text.splitlines() if line.startswith(name))
    return float(line.rpartition(" ")[2])


def counted(server, reason: str) -> int:
    """Wait for the server's thread: the client may know first that it was refused."""
    deadline = time.monotonic() + 5
    while not server._server.rejected[reason] and time.monotonic() < deadline:
        time.sleep(0.01)
    return server._server.rejected[reason]


def test_the_page_is_served_over_tls(folder):
    with tls_serving(write(folder)) as server:
        status, _, body = get(server, trusting(AUTHORITY))
    assert status == 200
    assert b"brokerwire_certificate_expiry_timestamp_seconds" in body


def test_plain_http_gets_no_answer_where_there_is_tls(folder):
    with tls_serving(write(folder)) as server, raw(server) as sock:
        sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"200" not in receive_all(sock)
        assert get(server, trusting(AUTHORITY))[0] == 200


def test_a_large_page_over_tls(folder):
    """Larger than the buffers of both ends."""
    with serving(Agent(fleet(40, 20)), web={"config_file": str(write(folder))}) as server:
        _, headers, body = get(server, trusting(AUTHORITY))
    assert len(body) == int(headers["Content-Length"]) > 500_000


@pytest.mark.parametrize("inline", ["cert", "key", "both"])
def test_certificate_and_key_may_stand_in_the_file(folder, inline):
    def block(name: str, file: str) -> str:
        lines = (folder / file).read_text().splitlines()
        return f"  {name}: |\n" + "".join(f"    {line}\n" for line in lines)

    text = "tls_server_config:\n"
    text += "  cert_file: server.crt\n" if inline == "key" else block("cert", "server.crt")
    text += "  key_file: server.key\n" if inline == "cert" else block("key", "server.key")
    put(folder / "web.yml", text)
    with tls_serving(folder / "web.yml") as server:
        assert get(server, trusting(AUTHORITY))[0] == 200


@pytest.mark.parametrize(("least", "version"), [("TLS12", "TLSv1.3"), ("TLS13", "TLSv1.3")])
def test_the_best_version_is_spoken(folder, least, version):
    with tls_serving(write(folder, f"  min_version: {least}\n")) as server:
        context = trusting(AUTHORITY)
        with connected(server, context=context) as client:
            client.request("GET", "/-/ready")
            assert client.sock.version() == version
            client.getresponse().read()


def test_an_older_client_is_refused_where_the_file_says_so(folder):
    context = trusting(AUTHORITY)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with tls_serving(write(folder, "  min_version: TLS13\n")) as server:
        with pytest.raises(ssl.SSLError):
            get(server, context)
        assert counted(server, "handshake") == 1
    with tls_serving(write(folder)) as server:
        assert get(server, context)[0] == 200


def test_suite_and_curve_are_those_of_the_file(folder):
    text = (
        "  cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384]\n  max_version: TLS12\n"
        "  curve_preferences: [CurveP384]\n"
    )
    with (
        tls_serving(write(folder, text)) as server,
        connected(server, context=trusting(AUTHORITY)) as client,
    ):
        client.request("GET", "/-/ready")
        assert client.sock.cipher()[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"
        client.getresponse().read()


# Clients' certificates

ASK = "  client_ca_file: ca.crt\n  client_auth_type: "


def client_pair(folder, issuer=AUTHORITY, sans=("prometheus.example",)):
    return issue("client", issuer, sans=sans).write(folder, "client")


def test_a_client_without_a_certificate_is_refused(folder):
    with tls_serving(write(folder, ASK + "RequireAndVerifyClientCert\n")) as server:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            get(server, trusting(AUTHORITY))
        own = trusting(AUTHORITY, client_pair(folder))
        assert get(server, own)[0] == 200


def test_a_certificate_of_somebody_else_is_refused(folder):
    stranger = issue("stranger")
    with tls_serving(write(folder, ASK + "RequireAndVerifyClientCert\n")) as server:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            get(server, trusting(AUTHORITY, client_pair(folder, stranger)))
        assert counted(server, "handshake") == 1


def test_a_certificate_may_be_left_out_but_not_be_wrong(folder):
    with tls_serving(write(folder, ASK + "VerifyClientCertIfGiven\n")) as server:
        assert get(server, trusting(AUTHORITY))[0] == 200
        assert get(server, trusting(AUTHORITY, client_pair(folder)))[0] == 200
        with pytest.raises((ssl.SSLError, ConnectionError)):
            get(server, trusting(AUTHORITY, client_pair(folder, issue("stranger"))))


def test_only_the_listed_names_may_speak(folder):
    text = ASK + "RequireAndVerifyClientCert\n  client_allowed_sans: [prometheus.example]\n"
    with tls_serving(write(folder, text)) as server:
        assert get(server, trusting(AUTHORITY, client_pair(folder)))[0] == 200
        other = client_pair(folder, sans=("other.example",))
        with pytest.raises((ssl.SSLError, ConnectionError)):
            get(server, trusting(AUTHORITY, other))
        assert counted(server, "certificate") == 1


# Files that change


@pytest.mark.usefixtures("fast_checks")
def test_a_new_certificate_is_shown_without_a_restart(folder):
    with tls_serving(write(folder)) as server:
        first = serial_of(server)
        new = issue("server", AUTHORITY)
        new.write(folder, "server")
        assert serial_of(server) == new.certificate.serial_number != first


@pytest.mark.parametrize("order", ["certificate first", "key first"])
@pytest.mark.usefixtures("fast_checks")
def test_a_pair_that_does_not_fit_yet_leaves_the_old_one(folder, order):
    new = issue("server", AUTHORITY)
    files = [("server.crt", new.pem), ("server.key", new.key_pem)]
    if order == "key first":
        files.reverse()
    with tls_serving(write(folder)) as server:
        first = serial_of(server)
        put(folder / files[0][0], files[0][1])
        for _ in range(3):
            assert serial_of(server) == first
        put(folder / files[1][0], files[1][1])
        assert serial_of(server) == new.certificate.serial_number
        assert metric(server, "brokerwire_config_reload_failures_total", trusting(AUTHORITY)) == 1


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("-----BEGIN CERTIFICATE-----\nMIIB", id="cut off"),
        pytest.param("tls?", id="no certificate"),
        pytest.param(issue("old", AUTHORITY, days=-1).pem, id="of another key"),
        pytest.param(None, id="gone"),
    ],
)
@pytest.mark.usefixtures("fast_checks")
def test_a_bad_certificate_leaves_the_old_one(folder, caplog, text):
    context = trusting(AUTHORITY)
    with tls_serving(write(folder)) as server:
        first = serial_of(server)
        if text is None:
            (folder / "server.crt").unlink()
        else:
            put(folder / "server.crt", text)
        assert serial_of(server) == first
        assert metric(server, "brokerwire_config_last_reload_successful", context) == 0
        issue("server", AUTHORITY).write(folder, "server")
        assert serial_of(server) != first
        time.sleep(1.1)  # a page is rendered anew after an interval
        assert metric(server, "brokerwire_config_last_reload_successful", context) == 1
    assert "invalid web config file, keeping the last valid one" in caplog.text
    assert "PRIVATE" not in caplog.text


@pytest.mark.usefixtures("fast_checks")
def test_a_certificate_that_has_ended_does_not_replace_one_that_has_not(folder):
    with tls_serving(write(folder)) as server:
        first = serial_of(server)
        issue("server", AUTHORITY, days=-1).write(folder, "server")
        assert serial_of(server) == first


def test_one_that_has_ended_is_better_than_none_at_the_start(folder):
    issue("server", AUTHORITY, days=-1).write(folder, "server")
    context = trusting(AUTHORITY)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with tls_serving(write(folder)) as server:
        name = "brokerwire_certificate_expiry_timestamp_seconds"
        assert metric(server, name, context) < time.time()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("tls_server_config: [\n", "is not YAML", id="broken"),
        pytest.param("tls_server_config:\n  cert_fil: a\n", "did you mean", id="unknown key"),
        pytest.param("", "no tls_server_config any more", id="half-written: empty"),
    ],
)
@pytest.mark.usefixtures("fast_checks")
def test_a_bad_file_leaves_the_last_good_one(folder, caplog, text, words):
    path = write(folder, "basic_auth_users:\n")
    with tls_serving(path) as server:
        first = serial_of(server)
        put(path, text)
        assert serial_of(server) == first
        assert words in caplog.text
        write(folder)
        assert serial_of(server) == first


@pytest.mark.usefixtures("fast_checks")
def test_a_mounted_secret_that_is_swapped_by_its_link_is_seen(folder):
    """Kubernetes renames the link `..data`: neither the file's name nor its folder changes."""
    volume = folder / "volume"
    volume.mkdir()

    def publish(version: str, certificate) -> None:
        data = volume / version
        data.mkdir()
        certificate.write(data, "tls")
        (volume / "..new").symlink_to(version)
        (volume / "..new").rename(volume / "..data")

    publish("one", issue("server", AUTHORITY))
    for name in ("tls.crt", "tls.key"):
        (volume / name).symlink_to(f"..data/{name}")
    text = "tls_server_config:\n  cert_file: volume/tls.crt\n  key_file: volume/tls.key\n"
    put(folder / "web.yml", text)
    with tls_serving(folder / "web.yml") as server:
        first = serial_of(server)
        new = issue("server", AUTHORITY)
        publish("two", new)
        assert serial_of(server) == new.certificate.serial_number != first


@pytest.mark.usefixtures("fast_checks")
def test_rotations_under_scrapes_fail_no_handshake(folder):
    context = trusting(AUTHORITY)
    failures, done = [], threading.Event()
    scraped = [0]

    def scrape(server):
        while not done.is_set():
            try:
                status = get(server, context, "/-/ready")[0]
                scraped[0] += 1
            except OSError as error:
                status = error
            if status != 200:
                failures.append(status)

    with tls_serving(write(folder)) as server:
        scrapers = [threading.Thread(target=scrape, args=(server,)) for _ in range(4)]
        for scraper in scrapers:
            scraper.start()
        for turn in range(60):
            new = issue("server", AUTHORITY)
            files = [("server.crt", new.pem), ("server.key", new.key_pem)]
            for name, text in files if turn % 2 else reversed(files):
                put(folder / name, text)
                time.sleep(0.01)
        done.set()
        for scraper in scrapers:
            scraper.join()
        assert serial_of(server) == new.certificate.serial_number
    assert failures == []
    assert scraped[0] > 60


# Files that are not good at the start


def start(path):
    with tls_serving(path):
        pass


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param(lambda f: (f / "server.crt").unlink(), "No such file", id="no certificate"),
        pytest.param(
            lambda f: put(f / "server.key", issue("x").key_pem), "no pair", id="another key"
        ),
        pytest.param(lambda f: put(f / "server.crt", "x"), "no pair", id="no PEM"),
        pytest.param(lambda f: put(f / "web.yml", "x: 1\n"), "not a known key", id="unknown key"),
        pytest.param(lambda f: (f / "web.yml").unlink(), "No such file", id="no file"),
        pytest.param(lambda f: (f / "web.yml").write_bytes(b"\xff"), "is not text", id="no text"),
    ],
)
def test_what_is_not_good_at_the_start_is_an_error(folder, change, words):
    path = write(folder)
    change(folder)
    with pytest.raises(ConfigError, match=words) as caught:
        start(path)
    assert "PRIVATE KEY" not in str(caught.value)


def test_a_key_with_a_password_is_an_error_and_asks_nobody(folder):
    from cryptography.hazmat.primitives import serialization

    pair = issue("server", AUTHORITY)
    locked = pair.key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    put(folder / "server.crt", pair.pem)
    put(folder / "server.key", locked.decode())
    with pytest.raises(ConfigError, match="encrypted"):
        start(write(folder))


def test_a_fifo_does_not_hang_the_start(folder):
    (folder / "server.key").unlink()
    os.mkfifo(folder / "server.key")
    with pytest.raises(ConfigError, match="no pair"):
        start(write(folder))


def test_a_client_ca_that_is_none_is_an_error(folder):
    put(folder / "ca.crt", "nothing")
    with pytest.raises(ConfigError, match=r"ca\.crt has no CA certificate"):
        start(write(folder, ASK + "RequireAndVerifyClientCert\n"))


def test_silence_and_nonsense_instead_of_a_handshake_are_no_lines_in_the_log(folder, caplog):
    caplog.set_level(logging.INFO)
    with tls_serving(write(folder)) as server:
        for data in (b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 500):
            with raw(server) as sock:
                sock.sendall(data)
                time.sleep(0.05)
        assert get(server, trusting(AUTHORITY))[0] == 200
    assert [record.getMessage() for record in caplog.records] == ["listening"]
