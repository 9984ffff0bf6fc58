"""One document at a time: what is being parsed takes many times the size of what was sent."""

from __future__ import annotations

__all__ = ["PARSING"]

import threading

PARSING = threading.Lock()
