"""Parses one document at a time: parsing takes many times the memory of the document."""

from __future__ import annotations

__all__ = ["PARSING"]

import threading

PARSING = threading.Lock()
