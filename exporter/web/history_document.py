"""The last hours and what the classes mean, as JSON: what the page draws beside a snapshot."""

from __future__ import annotations

__all__ = ["classes_document", "events_document", "history_document"]

from typing import TYPE_CHECKING

import exporter
from exporter.findings.explanations import MEANINGS, recommendation_of_class
from exporter.history import FIGURES
from exporter.model import WASTED_CLASSES, ConnectionClass
from exporter.web.fields import SCHEMA_VERSION, Document, envelope, plain, time_text
from exporter.web.words import CLASS_WORDS

if TYPE_CHECKING:
    from exporter.history import ConnectionEvent, Ring
    from exporter.snapshot import Snapshot


def history_document(snapshot: Snapshot, *, stale: bool = False) -> Document:
    """Describe the hours before a snapshot, as far as the agent has seen them."""
    history = snapshot.history
    behind = snapshot.wall_time - snapshot.at
    return {
        **envelope(snapshot, stale=stale),
        "series": [_series(ring, snapshot.at, behind) for ring in history.rings],
        "marks": [
            {
                "time": time_text(behind + mark.at),
                "kind": mark.kind,
                "name": mark.name,
                "text": plain(mark.text),
            }
            for mark in history.marks
        ],
        "clients": [
            {
                "client_id": plain(client_id) or None,
                "client_kind": kind,
                "process": plain(process),
                "connections": list(series.connections),
                "wasted": list(series.wasted),
            }
            for (client_id, kind, process), series in history.clients.items()
        ],
    }


def _series(ring: Ring, at: float, behind: float) -> Document:
    rows = list(ring.rows(at))
    figures: dict[str, list[int]] = {
        name: [values[place] for _, values in rows] for place, name in enumerate(FIGURES)
    }
    return {
        "step_seconds": ring.step_seconds,
        "times": [round(behind + begin) for begin, _ in rows],
        "by_class": {str(each): figures[each] for each in ConnectionClass},
        **{name: figures[name] for name in ("expected", "opened", "closed")},
    }


def events_document(snapshot: Snapshot, *, stale: bool = False) -> Document:
    """Describe what happened to connections lately, the last event last."""
    behind = snapshot.wall_time - snapshot.at
    return {
        **envelope(snapshot, stale=stale),
        "events": [_event(each, behind) for each in snapshot.history.events],
    }


def _event(each: ConnectionEvent, behind: float) -> Document:
    client_id, kind, process, broker_id, broker = each.client
    return {
        "time": time_text(behind + each.at),
        "event": each.kind,
        "cookie": None if each.cookie is None else str(each.cookie),
        "client_id": plain(client_id) or None,
        "client_kind": kind,
        "process": plain(process),
        "broker_id": int(broker_id) if broker_id.isdecimal() else None,
        "broker": broker,
        "local": each.local,
        "class_before": each.before,
        "class": each.after,
        "detail": plain(each.detail),
    }


def classes_document() -> Document:
    """Describe each class of connection: what it means, and what to do about it."""
    return {
        "schema_version": SCHEMA_VERSION,
        "version": exporter.__version__,
        "classes": [
            {
                "class": str(each),
                "short": CLASS_WORDS[each],
                "meaning": MEANINGS[each],
                "wasted": each in WASTED_CLASSES,
                "recommendation": recommendation_of_class(each),
            }
            for each in ConnectionClass
        ],
    }
