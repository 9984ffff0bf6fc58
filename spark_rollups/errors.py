"""What can go wrong in the rollups, and who must do something about it.

RollupsError
├── UsageError        the command line is wrong                        exit 2
├── MissingPartError  something that Spark needs is missing here       exit 3
└── PushError         the Pushgateway did not take the metrics         exit 1
"""

from __future__ import annotations

__all__ = ["MissingPartError", "PushError", "RollupsError", "UsageError"]


class RollupsError(Exception):
    """Anything that ends a command with one line instead of a traceback."""


class UsageError(RollupsError):
    """The command line is wrong."""


class MissingPartError(RollupsError):
    """A JDK, a jar or a package is missing; the message says how to get it."""


class PushError(RollupsError):
    """The Pushgateway did not take the metrics; the message has its words."""
