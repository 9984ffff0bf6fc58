"""The journal's records as one JSON Schema: data that the agent, the rollups and the docs share."""

from __future__ import annotations

__all__ = ["definitions", "schema"]

import json
from importlib import resources
from typing import Any


def schema() -> dict[str, Any]:
    """Return `journal.schema.json`; read through `resources`, so that a zip will do."""
    text = resources.files(__name__).joinpath("journal.schema.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def definitions() -> dict[str, Any]:
    """Return the envelope and each kind of record, by name."""
    found: dict[str, Any] = schema()["$defs"]
    return found
