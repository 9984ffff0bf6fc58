"""The configuration file: YAML to `Settings`, with every mistake named by its line.

The keys are the fields of the dataclasses in `exporter.config.settings`; nothing here lists them.
"""

from __future__ import annotations

__all__ = ["LARGEST_FILE", "read_settings", "settings_from_text"]

import errno
import os
import stat

from exporter.config.nodes import Problems, compose
from exporter.config.reader import read_section
from exporter.config.settings import Settings
from exporter.errors import ConfigError

LARGEST_FILE = 1 << 20
_FILE_ERRORS = {
    errno.ENOENT: "does not exist; name an existing file with --config, or leave it out",
    errno.EACCES: "must be readable: permission denied",
    errno.ENXIO: "must be a plain file",
    errno.ELOOP: "is a circle of symbolic links",
}


def read_settings(path: str) -> Settings:
    """Return the settings that a file holds.

    Raises:
        ConfigError: with every mistake of the file, or the reason why it cannot be read.
    """
    problems = Problems(path)
    data = _bytes_of(path, problems)
    problems.raise_if_any()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problems.add(line, "", f"must be UTF-8 text: byte {error.start + 1} is not")
        raise ConfigError(tuple(problems.found)) from error
    return settings_from_text(text, path)


def settings_from_text(text: str, file: str) -> Settings:
    """Return the settings that a text holds; `file` is what the mistakes are to name.

    Raises:
        ConfigError: with every mistake of the text.
    """
    problems = Problems(file)
    if len(text) > LARGEST_FILE:
        problems.add(None, "", "has more than 1 MiB: this is no configuration")
    root = None if problems.found else compose(text, problems)
    problems.raise_if_any()
    settings = Settings() if root is None else read_section(Settings, root, problems)
    problems.raise_if_any()
    if settings is None:
        raise AssertionError("a section was refused and no reason given")
    return settings


def _bytes_of(path: str, problems: Problems) -> bytes:
    """Read at most one byte over the limit, and only from a plain file.

    Without O_NONBLOCK the open of a FIFO would wait for ever.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        code = error.errno if isinstance(error, OSError) else None
        words = error.strerror if isinstance(error, OSError) else str(error)
        problems.add(None, "", _FILE_ERRORS.get(code or 0) or f"cannot be opened: {words}")
        return b""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            problems.add(None, "", "must be a plain file")
            return b""
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        problems.add(None, "", f"cannot be read: {error.strerror}")
        return b""
    finally:
        os.close(descriptor)
    if len(data) > LARGEST_FILE:
        problems.add(None, "", "has more than 1 MiB: this is no configuration")
    return data
