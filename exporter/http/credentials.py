"""Authentication and TLS of outgoing requests, from files that are read for each request.

No secret and nothing of a secret is ever in a message.
"""

from __future__ import annotations

__all__ = ["NO_CREDENTIALS", "authorization", "tls_context"]

import base64
import ssl
from pathlib import Path

from exporter.config.credentials import Credentials
from exporter.errors import SourceUnavailableError

MAX_SECRET_BYTES = 64 * 1024


NO_CREDENTIALS = Credentials()


def tls_context(credentials: Credentials) -> ssl.SSLContext:
    """Return a new context for each request: certificates are renewed while we run."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        if credentials.ca_file is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(credentials.ca_file)
        if credentials.cert_file is not None:
            # Without a password here, OpenSSL would ask the terminal for that of a locked key.
            context.load_cert_chain(
                credentials.cert_file, credentials.key_file, password=lambda: ""
            )
    except OSError as error:
        raise SourceUnavailableError(
            "cannot load the TLS files of a source: check `ca_file`, `cert_file` and `key_file` "
            f"({type(error).__name__}: {error.strerror})"
        ) from error
    return context


def authorization(credentials: Credentials) -> dict[str, str]:
    """Return the header that shows who we are, if there is anything to show."""
    if credentials.bearer_token_file is not None:
        token = _secret("bearer_token_file", credentials.bearer_token_file)
        return {"Authorization": f"Bearer {token}"}
    if credentials.username is None:
        return {}
    password = ""
    if credentials.password_file is not None:
        password = _secret("password_file", credentials.password_file)
    pair = base64.b64encode(f"{credentials.username}:{password}".encode()).decode()
    return {"Authorization": f"Basic {pair}"}


def _secret(key: str, path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            raw = file.read(MAX_SECRET_BYTES + 1)
        secret = raw.decode().rstrip("\r\n")
    except OSError as error:
        raise SourceUnavailableError(f"cannot read {key} {path!r}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise SourceUnavailableError(f"cannot use {key} {path!r}: it is not UTF-8") from None
    if len(raw) > MAX_SECRET_BYTES or not secret or not secret.isprintable():
        raise SourceUnavailableError(
            f"cannot use {key} {path!r}: it must hold one line of printable characters"
        )
    return secret
