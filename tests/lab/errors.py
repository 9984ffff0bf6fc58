"""The one exception of the lab: something it started, or needs, did not do its part."""

from __future__ import annotations

__all__ = ["LabError", "LabUnavailableError"]


class LabError(RuntimeError):
    """A broker, a client or a build step failed; the message carries the tail of its log."""


class LabUnavailableError(LabError):
    """A tool of the machine is missing: the lab cannot run here at all."""
