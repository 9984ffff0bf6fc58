"""Values read from files: secrets, and the downward API of a pod."""

from __future__ import annotations

__all__ = ["FILE_PREFIX", "read_value"]

from pathlib import Path

FILE_PREFIX = "file:"
MOST_BYTES = 64 * 1024


def read_value(name: str, value: str) -> str:
    """Return a value, read from its file where it says `file:/path`.

    Raises:
        ValueError: the file cannot be read; the text has its path and never what is in it.
    """
    if not value.startswith(FILE_PREFIX):
        return value
    path = value.removeprefix(FILE_PREFIX)
    try:
        with Path(path).open("rb") as file:
            return file.read(MOST_BYTES).decode().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise ValueError(f"cannot read {path!r} for {name}: {reason}") from error
