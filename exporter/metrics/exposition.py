"""The page of metrics: Prometheus text or OpenMetrics, as prometheus_client writes them."""

from __future__ import annotations

__all__ = ["GZIP_FROM_BYTES", "KEPT_SECONDS", "Exposition", "Format", "Page", "choose_format"]

import gzip
import logging
import time
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, choose_encoder
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.process_collector import ProcessCollector

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client.core import Metric
    from prometheus_client.registry import Collector

_LOG = logging.getLogger("brokerwire.metrics")

# Scrapes that come closer together than this get one page.
KEPT_SECONDS = 1.0
# Below this a body costs more to compress than to send to a neighbour.
GZIP_FROM_BYTES = 16 * 1024


class Format(StrEnum):
    """The two formats, by their content type."""

    TEXT = CONTENT_TYPE_PLAIN_0_0_4
    OPENMETRICS = openmetrics.CONTENT_TYPE_LATEST


def choose_format(accept: str) -> Format:
    """Choose by an Accept header as prometheus_client does.

    Versions and escapings come down to one each: they differ in names that are not here, and its
    own content type repeats whatever version was asked for.
    """
    try:
        _, content_type = choose_encoder(accept)
    except TypeError:
        # It compares a version that is no number with one that is.
        return Format.TEXT
    wanted = content_type.partition(";")[0]
    return Format.OPENMETRICS if Format.OPENMETRICS.startswith(wanted) else Format.TEXT


class Page(NamedTuple):
    """A finished page; `encoding` is "gzip" or empty."""

    body: bytes
    encoding: str
    made_at: float


class Exposition:
    """The metrics of a collector, and of this process, as bytes. For one thread."""

    def __init__(self, collector: Collector, clock: Callable[[], float] = time.monotonic) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(collector)
        self._registry.register(_OwnProcess())
        self._clock = clock
        self._kept: dict[tuple[Format, bool], Page] = {}

    def page(self, fmt: Format, *, packed: bool = False) -> Page:
        """Return the page of now, made once a second for all who ask; gzip where that pays."""
        now = self._clock()
        kept = self._kept.get((fmt, packed))
        if kept is None or now - kept.made_at >= KEPT_SECONDS:
            body = self._rendered(fmt)
            packed_now = packed and len(body) >= GZIP_FROM_BYTES
            if packed_now:
                # Level 1 saves nine tenths already; level 9 costs seven times as much CPU.
                body = gzip.compress(body, compresslevel=1, mtime=0)
            kept = self._kept[fmt, packed] = Page(body, "gzip" if packed_now else "", now)
        return kept

    def _rendered(self, fmt: Format) -> bytes:
        if fmt is Format.TEXT:
            return generate_latest(self._registry)
        # No name here needs an escape, and without them it is a third cheaper.
        body: bytes = openmetrics.generate_latest(  # type: ignore[no-untyped-call]
            self._registry, escaping=openmetrics.ALLOWUTF8
        )
        return body


class _OwnProcess(ProcessCollector):
    """The agent's own process, left out where it cannot be read."""

    def __init__(self) -> None:
        super().__init__(registry=None)

    def collect(self) -> list[Metric]:
        try:
            return list(super().collect())
        except Exception:  # noqa: BLE001  (whatever it is, it is logged)
            # It has no answer to a /proc/self/limits that lacks a line.
            _LOG.exception("cannot read this process")
            return []
