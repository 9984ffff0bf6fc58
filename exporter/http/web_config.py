"""The exporter-toolkit's web config file, with the same keys as for any exporter.

What Python's ssl cannot honour is a ValueError, never silence; `web_config_reader` adds the line.
"""

from __future__ import annotations

__all__ = [
    "SUITES",
    "HttpServerConfig",
    "RateLimit",
    "TlsServerConfig",
    "WebConfig",
]

from dataclasses import dataclass, field
from typing import Literal

ClientAuth = Literal[
    "NoClientCert",
    "RequestClientCert",
    "RequireAnyClientCert",
    "VerifyClientCertIfGiven",
    "RequireAndVerifyClientCert",
]
TlsVersion = Literal["TLS10", "TLS11", "TLS12", "TLS13"]
Curve = Literal["CurveP256", "CurveP384", "CurveP521", "X25519"]

# The headers that the toolkit allows to be set.
HEADERS = (
    "Content-Security-Policy",
    "Strict-Transport-Security",
    "X-Content-Type-Options",
    "X-Frame-Options",
    "X-XSS-Protection",
)
# Go's names of the suites that it offers, and OpenSSL's. Those of TLS 1.3 cannot be chosen, in Go
# neither: they are always on.
SUITES = {
    "TLS_AES_128_GCM_SHA256": "",
    "TLS_AES_256_GCM_SHA384": "",
    "TLS_CHACHA20_POLY1305_SHA256": "",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsServerConfig:
    """`tls_server_config`: what the server shows, and what it asks of clients."""

    cert_file: str | None = None
    key_file: str | None = None
    cert: str | None = None
    key: str | None = field(default=None, repr=False)
    client_ca_file: str | None = None
    client_ca: str | None = None
    client_auth_type: ClientAuth | None = None
    client_allowed_sans: tuple[str, ...] = ()
    min_version: TlsVersion = "TLS12"
    max_version: TlsVersion = "TLS13"
    cipher_suites: tuple[str, ...] = ()
    prefer_server_cipher_suites: bool = True
    curve_preferences: tuple[Curve, ...] = ()

    def __post_init__(self) -> None:
        for rule in (self._check_pair, self._check_clients, self._check_versions):
            rule()

    @property
    def asks_clients(self) -> bool:
        """Whether clients' certificates are asked for."""
        return self.client_auth_type in ("VerifyClientCertIfGiven", "RequireAndVerifyClientCert")

    def _check_pair(self) -> None:
        for name in ("cert", "key", "client_ca"):
            if getattr(self, name) is not None and getattr(self, f"{name}_file") is not None:
                raise ValueError(f"`{name}` and {name}_file are two places for one thing: keep one")
        for name in ("cert", "key"):
            if getattr(self, name) is None and getattr(self, f"{name}_file") is None:
                raise ValueError(f"needs {name}_file or {name}: without it there is no TLS")

    def _check_clients(self) -> None:
        has_ca = self.client_ca is not None or self.client_ca_file is not None
        if self.client_auth_type in ("RequestClientCert", "RequireAnyClientCert"):
            raise ValueError(
                f"`client_auth_type` {self.client_auth_type} asks for a certificate and does not"
                " verify it, which Python's ssl cannot do; use VerifyClientCertIfGiven or"
                " RequireAndVerifyClientCert"
            )
        if self.asks_clients and not has_ca:
            raise ValueError("`client_auth_type` needs client_ca_file: whom else to believe?")
        if has_ca and not self.asks_clients:
            raise ValueError(
                "has a client CA but no `client_auth_type` that uses it; add"
                " client_auth_type: RequireAndVerifyClientCert"
            )
        if self.client_allowed_sans and not self.asks_clients:
            raise ValueError("`client_allowed_sans` needs a client_auth_type that verifies")

    def _check_versions(self) -> None:
        for name in ("min_version", "max_version"):
            if getattr(self, name) in ("TLS10", "TLS11"):
                raise ValueError(f"`{name}` must be TLS12 or TLS13: OpenSSL 3 has no older one on")
        if self.min_version > self.max_version:
            raise ValueError("`min_version` must not be above max_version")
        for suite in self.cipher_suites:
            if suite not in SUITES:
                raise ValueError(
                    f"`cipher_suites` has {suite!r}, which is no name of Go's for a secure suite"
                )
        if "X25519" in self.curve_preferences or len(self.curve_preferences) > 1:
            raise ValueError(
                "`curve_preferences` may name one of CurveP256, CurveP384 and CurveP521: Python's"
                " ssl can set one curve only; leave it out for OpenSSL's own choice"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpServerConfig:
    """`http_server_config`."""

    http2: bool = False
    headers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.http2:
            raise ValueError("`http2` cannot be switched on: this server speaks HTTP/1.1")
        for name in self.headers:
            if name not in HEADERS:
                raise ValueError(f"`headers` may set {', '.join(HEADERS)}, not {name!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """`rate_limit`: one request each `interval` seconds in the long run, `burst` at once."""

    interval: float | None = None
    burst: int = 20

    def __post_init__(self) -> None:
        if not self.interval:
            raise ValueError("needs `interval`, a duration such as 100ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class WebConfig:
    """The whole file; an empty one serves plain HTTP to everybody."""

    tls_server_config: TlsServerConfig | None = None
    http_server_config: HttpServerConfig = HttpServerConfig()
    basic_auth_users: dict[str, str] = field(default_factory=dict, repr=False)
    rate_limit: RateLimit | None = None
