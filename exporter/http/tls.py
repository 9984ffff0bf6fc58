"""TLS contexts, tested before they are used.

A context is built whole from texts that were read once and shakes hands with itself; only then
does it replace the last one. `load_cert_chain` into a context in use would leave it without any
pair when the new certificate and the new key do not (yet) belong together.
"""

from __future__ import annotations

__all__ = ["Material", "TlsError", "server_context"]

import os
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from exporter.http.web_config import SUITES

if TYPE_CHECKING:
    from exporter.http.web_config import TlsServerConfig

_CURVES = {"CurveP256": "prime256v1", "CurveP384": "secp384r1", "CurveP521": "secp521r1"}
_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
# X509_V_FLAG_NO_CHECK_TIME: whether a certificate has ended is distinguished from whether it works.
_NO_CHECK_TIME = 0x200000
# More rounds than any handshake in memory needs.
_ROUNDS = 10


class TlsError(Exception):
    """The files do not make a working server; the message says which one and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """Certificate, key and client CA as PEM texts, and where they came from for the messages."""

    certificate: str
    key: str = field(repr=False)
    client_ca: str | None
    certificate_name: str
    key_name: str
    client_ca_name: str


def server_context(config: TlsServerConfig, material: Material) -> tuple[ssl.SSLContext, float]:
    """Build a context and let it shake hands; return it and when its certificate ends.

    Raises:
        TlsError: the pair does not belong together, or something else does not work.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[config.min_version]
    context.maximum_version = _VERSIONS[config.max_version]
    _load_pair(context, material)
    if config.asks_clients:
        required = config.client_auth_type == "RequireAndVerifyClientCert"
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
        _load_clients(context, material)
    if not config.prefer_server_cipher_suites:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    suites = [SUITES[suite] for suite in config.cipher_suites if SUITES[suite]]
    try:
        if suites:
            context.set_ciphers(":".join(suites))
        for curve in config.curve_preferences:
            context.set_ecdh_curve(_CURVES[curve])
    except (ssl.SSLError, ValueError) as error:
        raise TlsError(
            f"OpenSSL refuses the cipher suites or the curve: {_words(error)}"
        ) from error
    return context, _certificate_end(context, material)


def _load_pair(context: ssl.SSLContext, material: Material) -> None:
    # Python loads pairs from files only. An anonymous one keeps the key off every disk.
    certificate, key = _anonymous(material.certificate), _anonymous(material.key)
    try:
        context.load_cert_chain(
            f"/proc/self/fd/{certificate}", f"/proc/self/fd/{key}", password=_no_password
        )
    except (ssl.SSLError, OSError, ValueError) as error:
        raise TlsError(
            f"{material.certificate_name} and {material.key_name} are no pair of certificate and"
            f" key in PEM: {_words(error)}"
        ) from error
    finally:
        os.close(certificate)
        os.close(key)


def _anonymous(text: str) -> int:
    descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
    os.write(descriptor, text.encode())
    return descriptor


def _no_password() -> str:
    # Without this OpenSSL would ask at the terminal and wait.
    raise ValueError("the key is encrypted, which an unattended server cannot use")


def _load_clients(context: ssl.SSLContext, material: Material) -> None:
    try:
        context.load_verify_locations(cadata=material.client_ca)
    except (ssl.SSLError, ValueError, OSError) as error:
        raise TlsError(
            f"{material.client_ca_name} has no CA certificate in PEM: {_words(error)}"
        ) from error


def _certificate_end(context: ssl.SSLContext, material: Material) -> float:
    """Shake hands in memory with a client that believes in this very certificate."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    client.verify_flags = ssl.VerifyFlags(client.verify_flags | _NO_CHECK_TIME)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server)
    answering = context.wrap_bio(to_server, to_client, server_side=True)
    try:
        client.load_verify_locations(cadata=material.certificate)
        for _ in range(_ROUNDS):
            if _step(asking):
                break
            _step(answering)
    except ssl.SSLError as error:
        # A client without the required certificate was refused, after it has seen the server's.
        if "PEER_DID_NOT_RETURN_A_CERTIFICATE" not in str(error):
            raise TlsError(
                f"a handshake with {material.certificate_name} fails: {_words(error)}"
            ) from error
    end = (asking.getpeercert() or {}).get("notAfter")
    if not isinstance(end, str):
        raise TlsError(f"a handshake with {material.certificate_name} does not come to an end")
    return ssl.cert_time_to_seconds(end)


def _step(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def _words(error: Exception) -> str:
    """Say OpenSSL's reason without its source file and line."""
    reason = getattr(error, "reason", None)
    return str(reason).lower().replace("_", " ") if reason else str(error)
