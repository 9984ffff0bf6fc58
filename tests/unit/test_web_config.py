from __future__ import annotations

import pytest

from exporter.errors import ConfigError
from exporter.http.web_config import HEADERS, SUITES, TlsServerConfig
from exporter.http.web_config_reader import read_web_config

# The hashes of "secret" and of the toolkit's own documentation.
HASH = "$2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi"
CANARY = "c4n4ry-S3CRET"
PAIR = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n"

# As in the toolkit's documentation, less what Python's ssl cannot do.
EVERYTHING = f"""\
tls_server_config:
  cert_file: server.crt
  key_file: server.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.crt
  client_allowed_sans:
    - prometheus.example
    - 10.0.0.1
  min_version: TLS12
  max_version: TLS13
  cipher_suites:
    - TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
    - TLS_AES_128_GCM_SHA256
  prefer_server_cipher_suites: false
  curve_preferences:
    - CurveP256
http_server_config:
  http2: false
  headers:
    Strict-Transport-Security: max-age=31536000
basic_auth_users:
  alice: {HASH}
  bob: {HASH}
rate_limit:
  interval: 100ms
  burst: 5
"""


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read_web_config(text, "web.yml")
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "tls_server_config:\n"])
def test_an_empty_file_is_plain_http_for_everybody(text):
    config = read_web_config(text, "web.yml")
    assert config.tls_server_config is None
    assert config.basic_auth_users == {}
    assert config.rate_limit is None


def test_every_key_of_the_toolkit_is_read():
    config = read_web_config(EVERYTHING, "web.yml")
    assert config.tls_server_config == TlsServerConfig(
        cert_file="server.crt",
        key_file="server.key",
        client_auth_type="RequireAndVerifyClientCert",
        client_ca_file="ca.crt",
        client_allowed_sans=("prometheus.example", "10.0.0.1"),
        cipher_suites=("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
        prefer_server_cipher_suites=False,
        curve_preferences=("CurveP256",),
    )
    assert config.http_server_config.headers == {"Strict-Transport-Security": "max-age=31536000"}
    assert config.basic_auth_users == {"alice": HASH, "bob": HASH}
    assert config.rate_limit is not None
    assert (config.rate_limit.interval, config.rate_limit.burst) == (0.1, 5)


def test_certificates_may_stand_in_the_file():
    text = "tls_server_config:\n  cert: |\n    one\n    two\n  key: |\n    three\n"
    tls = read_web_config(text, "web.yml").tls_server_config
    assert tls is not None
    assert (tls.cert, tls.key) == ("one\ntwo\n", "three\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("tls_servr_config: {}\n", "web.yml:1: tls_servr_config: is not", id="section"),
        pytest.param(
            PAIR + "  minversion: TLS12\n",
            "web.yml:4: tls_server_config.minversion: is not a known key; did you mean 'min_version'",
            id="key",
        ),
        pytest.param(
            PAIR + "  key_file: other.key\n",
            "web.yml:4: tls_server_config.key_file: is here twice",
            id="doubled",
        ),
        pytest.param("tls_server_config:\n  cert_file: a\n", "key_file", id="no key"),
        pytest.param(
            PAIR + "  cert: x\n", "web.yml:4: tls_server_config.cert: and", id="two certs"
        ),
        pytest.param(
            PAIR + "  client_auth_type: RequireAnyClientCert\n",
            "web.yml:4: tls_server_config.client_auth_type: RequireAnyClientCert asks",
            id="any certificate",
        ),
        pytest.param(
            PAIR + "  client_auth_type: RequestClientCert\n",
            "which Python's ssl cannot",
            id="request",
        ),
        pytest.param(
            PAIR + "  client_auth_type: RequireAndVerifyClientCert\n", "client_ca_file", id="no CA"
        ),
        pytest.param(PAIR + "  client_ca_file: ca.crt\n", "client_auth_type", id="unused CA"),
        pytest.param(PAIR + "  client_allowed_sans: [a]\n", "client_auth_type", id="unused SANs"),
        pytest.param(PAIR + "  min_version: TLS10\n", "TLS12 or TLS13", id="old version"),
        pytest.param(PAIR + "  min_version: SSL3\n", "must be TLS10, TLS11", id="no version"),
        pytest.param(
            PAIR + "  min_version: TLS13\n  max_version: TLS12\n",
            "above max_version",
            id="versions",
        ),
        pytest.param(PAIR + "  cipher_suites: [RC4]\n", "'RC4'", id="suite"),
        pytest.param(PAIR + "  curve_preferences: [X25519]\n", "one curve only", id="curve"),
        pytest.param(
            PAIR + "  curve_preferences: [CurveP256, CurveP384]\n", "one curve only", id="curves"
        ),
        pytest.param(
            "http_server_config:\n  http2: true\n",
            "web.yml:2: http_server_config.http2",
            id="http2",
        ),
        pytest.param(
            "http_server_config:\n  headers:\n    X-Other: a\n", "not 'X-Other'", id="header"
        ),
        pytest.param("rate_limit:\n  burst: 3\n", "interval", id="no interval"),
        pytest.param("rate_limit:\n  interval: 3\n", "must be a duration", id="no unit"),
        pytest.param("basic_auth_users: [a]\n", "must be a section", id="users as a list"),
        pytest.param("- a\n", "web.yml:1: must be a section", id="list"),
        pytest.param("a: [\n", "web.yml:2: is not YAML", id="broken"),
        pytest.param("a: &b 1\n", "anchors", id="anchor"),
    ],
)
def test_a_mistake_has_its_line_and_its_remedy(text, expected):
    (problem,) = problems(text)
    assert expected in problem


@pytest.mark.parametrize(
    "value",
    [CANARY, f"'{CANARY}'", "12345678", "1e400", "$2y$10$short", f"$2y$31${'a' * 53}", "true"],
)
def test_a_password_that_is_no_hash_is_refused_and_not_repeated(value):
    (problem,) = problems(f"basic_auth_users:\n  alice: {value}\n")
    assert problem.startswith("web.yml:2: basic_auth_users.alice: must")
    assert value.strip("'") not in problem


@pytest.mark.parametrize("text", [f"key: {CANARY}\n  x: 1", f"key: [{CANARY}]", f"kye: {CANARY}"])
def test_a_key_is_not_repeated(text):
    assert CANARY not in "".join(problems(f"tls_server_config:\n  cert: a\n  {text}\n"))


def test_secrets_are_not_in_the_repr():
    text = f"tls_server_config:\n  cert: a\n  key: {CANARY}\nbasic_auth_users:\n  alice: {HASH}\n"
    shown = repr(read_web_config(text, "web.yml"))
    assert CANARY not in shown
    assert HASH not in shown


def test_all_mistakes_are_named_at_once():
    found = problems("basic_auth_users:\n  a: b\n  c: d\nx: 1\ny: 2\n")
    assert [problem.split(":")[1] for problem in found] == ["2", "3", "4", "5"]


def test_only_safe_suites_and_headers_are_known():
    assert not [name for name in SUITES.values() if "RC4" in name or "3DES" in name]
    assert len(HEADERS) == 5
