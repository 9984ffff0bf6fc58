"""Which settings are secrets: they are kept in files, and no message repeats them."""

from __future__ import annotations

__all__ = ["HARMLESS", "SENSITIVE", "check_client", "check_url", "may_hold_secret"]

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# Names of settings, of librdkafka, Java and Spark. The chart has the same patterns (RE2 has no
# look-ahead, so that the exceptions are a second one).
SENSITIVE = (
    r"(?i)passw|passphrase|secret|token|jaas|credential|private.?key|ssl[._]key([._]pem)?$"
    r"|keystore\.key$|access[._]?key|account\.key|oauthbearer\.config$"
)
# What leads to a secret, or says of which kind it is.
HARMLESS = r"(?i)(file|location|path|url|provider|class|mechanism|type)$"
_SENSITIVE = re.compile(SENSITIVE)
_HARMLESS = re.compile(HARMLESS)
_SENSITIVE_IN_QUERY = re.compile(SENSITIVE + r"|key|auth|sig|pwd")
_PEM_KEY = "PRIVATE KEY"


def _is_secret(name: str, value: str) -> bool:
    if value.startswith("file:"):
        return False
    return _PEM_KEY in value or bool(_SENSITIVE.search(name) and not _HARMLESS.search(name))


def check_client(client: Mapping[str, str]) -> None:
    """Refuse a secret among the settings of a Kafka client.

    Raises:
        ValueError: with the setting's name, never with its value.
    """
    for name, value in client.items():
        if _is_secret(name, value):
            raise ValueError(
                f"`client` must not hold a secret: put {name} into a file and write file:/path"
            )


def check_url(url: str) -> None:
    """Refuse a secret in the query of a URL, which is shown with the configuration.

    Raises:
        ValueError: with the parameter's name, never with its value.
    """
    for parameter in url.partition("?")[2].split("&"):
        name = parameter.partition("=")[0]
        if _SENSITIVE_IN_QUERY.search(name):
            raise ValueError(
                f"`url` must not hold a secret: {name} is one by its name; put it into a file and"
                " name that as `bearer_token_file` or `password_file`"
            )


def may_hold_secret(path: str, value: str) -> bool:
    """Whether a message must not repeat a value that is wrong."""
    is_url = "://" in value and "?" in value
    return is_url or "@" in value or _PEM_KEY in value or bool(_SENSITIVE.search(path))
