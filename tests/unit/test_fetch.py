"""What a fetch refuses before it opens a connection."""

from __future__ import annotations

import pytest

from exporter.config.credentials import Credentials
from exporter.errors import SourceUnavailableError
from exporter.http.fetch import fetch

SECRET = "hunter2-canary"  # the word that must be in no message


def refusal(url="http://127.0.0.1:1/", **credentials):
    with pytest.raises(SourceUnavailableError) as caught:
        fetch(url, timeout_seconds=2, max_bytes=100, credentials=Credentials(**credentials))
    message = str(caught.value)
    assert SECRET not in message
    return message


@pytest.mark.parametrize(
    ("url", "message"),
    [
        pytest.param("file:///etc/passwd", "starts with http:// or https:// and a host", id="file"),
        pytest.param("ftp://127.0.0.1/", "starts with http:// or https://", id="ftp"),
        pytest.param("gopher://127.0.0.1/", "starts with http:// or https://", id="gopher"),
        pytest.param("127.0.0.1:9404/metrics", "starts with http:// or https://", id="no-scheme"),
        pytest.param("http:///metrics", "and a host", id="no-host"),
        pytest.param("", "and a host", id="empty"),
        pytest.param("http://127.0.0.1:99999/", "no proper host and port", id="port-too-high"),
        pytest.param("http://127.0.0.1:0/", "and a host", id="port-zero"),
        pytest.param("http://127.0.0.1:x/", "no proper host and port", id="port-text"),
        pytest.param("http://[::1/", "no proper host and port", id="bracket"),
        pytest.param(f"http://u:{SECRET}@127.0.0.1/", "not into the URL", id="credentials"),
        pytest.param(f"http://{SECRET}@127.0.0.1/", "not into the URL", id="user"),
        pytest.param("http://127.0.0.1/a b", "must be percent-encoded", id="blank"),
        pytest.param("http://127.0.0.1/a\x7f", "must be percent-encoded", id="control"),
        pytest.param(
            "http://169.254.169.254/latest", "is where clouds serve credentials", id="metadata"
        ),
        pytest.param(
            "http://2852039166/latest", "is where clouds serve credentials", id="as-a-number"
        ),
        pytest.param("http://0xa9fea9fe/latest", "is where clouds serve credentials", id="as-hex"),
        pytest.param(
            "http://0251.0376.0251.0376/", "is where clouds serve credentials", id="as-octal"
        ),
        pytest.param(
            "http://[::ffff:169.254.169.254]/", "is where clouds serve credentials", id="mapped"
        ),
        pytest.param("http://[fe80::1]/", "is where clouds serve credentials", id="v6"),
        *(
            pytest.param(f"http://{host}/", "is where clouds serve credentials", id=cloud)
            for cloud, host in {
                "azure": "168.63.129.16",
                "alibaba": "100.100.100.200",
                "oracle": "192.0.0.192",
                "aws-v6": "[fd00:ec2:0:0::254]",
                "google-v6": "[fd20:ce::254]",
                "mapped-azure": "[::ffff:168.63.129.16]",
            }.items()
        ),
        pytest.param("http://nowhere.invalid/", "cannot look up 'nowhere.invalid'", id="no-name"),
    ],
)
def test_a_url_that_must_not_be_fetched_is_refused(url, message):
    assert message in refusal(url)


def test_a_refused_connection_says_where():
    message = refusal(f"http://127.0.0.1:1/metrics?token={SECRET}#{SECRET}")
    assert message == "cannot read http://127.0.0.1:1/metrics: Connection refused"


@pytest.mark.parametrize("key", ["bearer_token_file", "password_file"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "No such file or directory", id="absent"),
        pytest.param(b"", "must hold one line", id="empty"),
        pytest.param(b"\n", "must hold one line", id="newline"),
        pytest.param(f"a\n{SECRET}\n".encode(), "must hold one line", id="two-lines"),
        pytest.param(f"{SECRET}\r\nX-Evil: 1".encode(), "must hold one line", id="injection"),
        pytest.param(SECRET.encode() + b"\x00", "must hold one line", id="zero-byte"),
        pytest.param(SECRET.encode() + b"\xff", "is not UTF-8", id="binary"),
        pytest.param(SECRET.encode() * 10_000, "must hold one line", id="huge"),
    ],
)
def test_a_secret_that_cannot_be_used_says_which_file_and_never_what(
    tmp_path, key, content, message
):
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    said = refusal(**{key: str(file), "username": "u"})
    assert message in said
    assert f"{key} {str(file)!r}" in said


@pytest.mark.parametrize("key", ["ca_file", "cert_file"])
@pytest.mark.parametrize("content", [None, b"", b"not a certificate"])
def test_tls_files_that_cannot_be_used_are_named(tmp_path, free_listener, key, content):
    file = tmp_path / "pem"
    if content is not None:
        file.write_bytes(content)
    url = f"https://127.0.0.1:{free_listener}/"
    assert "check `ca_file`, `cert_file` and `key_file`" in refusal(url, **{key: str(file)})


@pytest.fixture
def free_listener():
    """A port that accepts and says nothing: the files are read after connecting."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]
