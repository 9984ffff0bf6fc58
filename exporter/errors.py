"""What can go wrong, and who must do something about it.

BrokerwireError
├── ConfigError                  the operator must edit something             exit 2
├── UsageError                   flags that are wrong or do not go together   exit 2
├── NotFoundError                what the command asks for is not there       exit 5
└── SourceError                  one read of one source failed; keep serving  exit 3
    ├── SourceUnavailableError   refused or absent (the cause kept as __cause__)
    └── SourceDecodeError        bytes that do not fit the documented format

Errors are caught in two places: `exporter.cli` turns them into exit codes, `exporter.agent` turns a
SourceError into `source up 0`, a counter and one log line when it changes.
A message says what, where and what to do; values are shown with `!r`.
"""

from __future__ import annotations

__all__ = [
    "BrokerwireError",
    "ConfigError",
    "ConfigProblem",
    "NotFoundError",
    "SourceDecodeError",
    "SourceError",
    "SourceUnavailableError",
    "UsageError",
]

from dataclasses import dataclass


class BrokerwireError(Exception):
    """Anything that brokerwire raises on purpose."""


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One mistake in a file; `line` is None where the file could not be read at all."""

    file: str
    line: int | None
    key: str
    message: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.key}: {self.message}" if self.key else f"{place}: {self.message}"


class ConfigError(BrokerwireError):
    """The configuration is wrong; `problems` holds every mistake, not only the first."""

    def __init__(self, problems: tuple[ConfigProblem, ...]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class UsageError(BrokerwireError):
    """The command line has a flag that is wrong, or flags that do not go together."""


class NotFoundError(BrokerwireError):
    """No process, client or connection is what the command line asks for."""


class SourceError(BrokerwireError):
    """One read of one source failed; what was known before stays, marked as old."""


class SourceUnavailableError(SourceError):
    """The source refused, is absent or did not answer in time."""


class SourceDecodeError(SourceError):
    """The source answered with bytes that do not fit its documented format."""
