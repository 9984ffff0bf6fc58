"""Authentication and TLS of outgoing requests; secrets are always in files."""

from __future__ import annotations

__all__ = ["Credentials", "check_credentials"]

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The keys that each target has in common; files are read for each request, so they rotate."""

    username: str | None = None
    """User of basic authentication."""
    password_file: str | None = None
    """File that holds the password of `username`."""
    bearer_token_file: str | None = None
    """File that holds a bearer token."""
    ca_file: str | None = None
    """CA certificates to trust instead of the system's."""
    cert_file: str | None = None
    """Client certificate, for mutual TLS."""
    key_file: str | None = None
    """The key of `cert_file`."""


def check_credentials(target: Credentials) -> None:
    """Refuse keys that do not go together.

    Raises:
        ValueError: with the key that it is about.
    """
    if target.username is not None and target.password_file is None:
        raise ValueError("`username` needs `password_file`")
    if target.password_file is not None and target.username is None:
        raise ValueError("`password_file` needs `username`")
    if target.username is not None and target.bearer_token_file is not None:
        raise ValueError("`bearer_token_file` does not go with `username`")
    if target.key_file is not None and target.cert_file is None:
        raise ValueError("`key_file` needs `cert_file`")
