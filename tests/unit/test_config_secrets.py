"""Secrets in the configuration: refused where they stand, and repeated nowhere."""

from __future__ import annotations

import pytest

from exporter.config.files import read_settings
from exporter.errors import ConfigError

CLIENT = """
journal:
  kafka:
    bootstrap_servers: k:9092
    spool_folder: /spool
    client: {%s: "%s"}
"""
PAGE = """
sources:
  java:
    - name: orders
      url: "%s"
"""


@pytest.fixture
def read(tmp_path):
    def of(text):
        (tmp_path / "f.yaml").write_text(text)
        return read_settings(str(tmp_path / "f.yaml"))

    return of


@pytest.fixture
def refusal(read):
    def of(text):
        with pytest.raises(ConfigError) as refused:
            read(text)
        return str(refused.value)

    return of


@pytest.mark.parametrize(
    "name",
    [
        "sasl.password",
        "ssl.key.password",
        "ssl.key.pem",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.assertion.private.key.pem",
        "sasl.oauthbearer.assertion.private.key.passphrase",
    ],
)
def test_a_secret_of_a_client_is_refused_and_not_repeated(name, read, refusal):
    told = refusal(CLIENT % (name, "hunter2"))
    assert f"put {name} into a file" in told
    assert "hunter2" not in told
    read(CLIENT % (name, "file:/run/secret"))


def test_a_private_key_is_one_whatever_it_is_called(refusal):
    told = refusal(CLIENT % ("ssl.certificate.pem", "-----BEGIN PRIVATE KEY-----hunter2"))
    assert "must not hold a secret" in told
    assert "hunter2" not in told


@pytest.mark.parametrize(
    "name",
    [
        "ssl.key.location",
        "ssl.ca.pem",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.assertion.private.key.file",
    ],
)
def test_what_leads_to_a_secret_is_none(name, read):
    settings = read(CLIENT % (name, "value"))
    assert settings.journal.kafka.client == {name: "value"}


@pytest.mark.parametrize("name", ["token", "access_token", "api_key", "auth", "sig", "Password"])
def test_a_url_holds_no_secret_in_its_query(name, refusal):
    told = refusal(PAGE % f"http://h:1/metrics?match=x&{name}=hunter2")
    assert "f.yaml:5: sources.java[0].url: must not hold a secret" in told
    assert "hunter2" not in told


def test_a_url_that_is_wrong_is_not_repeated_where_it_may_hold_a_secret(refusal):
    assert "hunter2" not in refusal(PAGE % "ftp://h:1/metrics?token=hunter2")


def test_a_plain_query_is_let_through(read):
    url = "http://h:1/metrics?target=a:1&format=text"
    assert read(PAGE % url).sources.java[0].url == url
