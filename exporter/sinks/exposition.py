"""Prometheus text and OpenMetrics of a snapshot, byte for byte as prometheus_client writes them.

A renderer of our own: prometheus_client needs some 7 microseconds a series, this a fraction of
one, and the agent is spared its imports. `collector` has the same families for its registries.
"""

from __future__ import annotations

__all__ = [
    "BOUNDS",
    "END",
    "GZIP_FROM_BYTES",
    "Exposition",
    "Format",
    "build_readings",
    "choose_format",
    "compressed",
    "head_of",
]

import logging
import math
import platform
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

import exporter
from exporter.settings import LimitSettings
from exporter.sinks.catalogue import Kind
from exporter.sinks.families import families, is_stale
from exporter.sinks.labels import Labels
from exporter.sinks.process import process_readings
from exporter.snapshot import LIFETIME_BUCKETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from exporter.sinks.catalogue import MetricSpec
    from exporter.sinks.families import Reading, Row
    from exporter.snapshot import Snapshot

_LOG = logging.getLogger("brokerwire.metrics")

# Below this a body costs more to compress than to send to a neighbour.
GZIP_FROM_BYTES = 16 * 1024
# The last line of OpenMetrics.
END = "# EOF\n"


class Format(StrEnum):
    """The two formats, by their content type."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def choose_format(accept: str) -> Format:
    """Choose as Prometheus' own libraries do: the best `q` first, plain text for whoever asks not.

    OpenMetrics is for those who name it: `*/*` is what a browser and curl say.
    """
    offers = sorted(map(_offer, accept.split(",")), key=lambda offer: -offer[0])
    for quality, media_type, version in offers:
        if quality <= 0:
            break
        if media_type == "application/openmetrics-text" and version in ("", "1.0.0"):
            return Format.OPENMETRICS
        if media_type in ("text/*", "*/*") or (
            media_type == "text/plain" and version in ("", "0.0.4")
        ):
            return Format.TEXT
    return Format.TEXT


def _offer(text: str) -> tuple[float, str, str]:
    media_type, *rest = (part.strip() for part in text.split(";"))
    parameters = dict(part.partition("=")[::2] for part in rest)
    try:
        quality = float(parameters.get("q", "1"))
    except ValueError:
        quality = 0.0
    return quality, media_type.lower(), parameters.get("version", "")


def _number(value: float) -> str:
    """Write a value as Go does for `le`; small integers, nearly all there are, from a table."""
    small = _SMALL.get(value)
    if small is not None:
        return small
    number = float(value)
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "+Inf" if number > 0 else "-Inf"
    text = repr(number)
    dot = text.find(".")
    if number > 0 and dot > _GO_EXPONENT_FROM:
        mantissa = f"{text[0]}.{text[1:dot]}{text[dot + 1 :]}".rstrip("0.")
        return f"{mantissa}e+{dot - 1:02d}"
    return text


_SMALL: dict[float, str] = {number: f"{number}.0" for number in range(1000)}
_GO_EXPONENT_FROM = 6
BOUNDS = (*map(_number, LIFETIME_BUCKETS), "+Inf")


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


class Exposition:
    """The metrics of the last snapshot as bytes; a snapshot is rendered once for all who ask.

    For one thread. `readings` are further suppliers of catalogued values, asked at each rendering;
    `constant` labels stand on every series.
    """

    def __init__(
        self,
        limits: LimitSettings | None = None,
        readings: Sequence[Callable[[], Iterable[Reading]]] = (),
        *,
        constant: Mapping[str, str] | None = None,
        of_process: bool = True,
    ) -> None:
        limits = limits or LimitSettings()
        self._labels = Labels(series=limits.series, label_bytes=limits.label_bytes)
        own = (build_readings, process_readings) if of_process else ()
        self._readings = (*own, *readings)
        names = tuple(constant or {})
        self._constant = dict(zip(names, self._labels.safe((constant or {}).values()), strict=True))
        self._pieces: dict[tuple[str, ...], dict[tuple[str, ...], tuple[str, str]]] = {}
        self._done: dict[Format, _Rendered] = {}

    def render(self, snapshot: Snapshot | None, now: float, fmt: Format) -> bytes:
        """Render a snapshot; `now` is the monotonic clock, which tells one that is too old."""
        return self._rendered(snapshot, now, fmt).body

    def render_gzip(self, snapshot: Snapshot | None, now: float, fmt: Format) -> bytes | None:
        """Render and compress; None where compressing does not pay."""
        return self._rendered(snapshot, now, fmt).compressed()

    def _rendered(self, snapshot: Snapshot | None, now: float, fmt: Format) -> _Rendered:
        done = self._done.get(fmt)
        if done is None or snapshot is None or not done.serves(snapshot, now):
            body = "".join(self._lines(snapshot, now, fmt)).encode()
            done = self._done[fmt] = _Rendered(snapshot, now, body)
        return done

    def _lines(self, snapshot: Snapshot | None, now: float, fmt: Format) -> list[str]:
        lines: list[str] = []
        for spec, samples in self.samples(snapshot, now):
            lines.append(head_of(spec, fmt))
            lines += samples
        if fmt is Format.OPENMETRICS:
            lines.append(END)
        return lines

    def samples(
        self, snapshot: Snapshot | None, now: float
    ) -> Iterator[tuple[MetricSpec, list[str]]]:
        """Yield the lines of each metric without its head, which several expositions may share."""
        readings = [each for supply in self._readings for each in _asked(supply)]
        for spec, rows in families(snapshot, now, self._labels, readings):
            lines: list[str] = []
            if spec.kind is Kind.HISTOGRAM:
                self._write_histograms(lines, spec, rows)
            else:
                self._write(lines, spec, rows)
            yield spec, lines

    def _write(self, lines: list[str], spec: MetricSpec, rows: Iterable[Row]) -> None:
        pieces = self._pieces_of(spec.labels)
        name, by_label = spec.name, spec.by
        for key, by, value in rows:
            before, after = pieces.get(key) or self._cut(pieces, key, spec.labels, by_label)
            lines.append(f"{name}{before}{by}{after}{_number(value)}\n")

    def _write_histograms(self, lines: list[str], spec: MetricSpec, rows: Iterable[Row]) -> None:
        with_le = (*spec.labels, "le")
        buckets, plain = self._pieces_of(with_le), self._pieces_of(spec.labels)
        name = spec.name
        for key, _, histogram in rows:
            before, after = buckets.get(key) or self._cut(buckets, key, with_le, "le")
            count = 0
            for bound, observed in zip(BOUNDS, histogram.counts, strict=True):
                count += observed
                lines.append(f"{name}_bucket{before}{bound}{after}{_number(count)}\n")
            labels = "".join(plain.get(key) or self._cut(plain, key, spec.labels, ""))
            lines.append(f"{name}_count{labels}{_number(count)}\n")
            lines.append(f"{name}_sum{labels}{_number(histogram.sum)}\n")

    def _pieces_of(self, labels: tuple[str, ...]) -> dict[tuple[str, ...], tuple[str, str]]:
        pieces = self._pieces.setdefault(labels, {})
        if len(pieces) > 4 * self._labels.room:
            # Clients come and go; who is still there is cut anew.
            pieces.clear()
        return pieces

    def _cut(
        self,
        pieces: dict[tuple[str, ...], tuple[str, str]],
        key: tuple[str, ...],
        labels: tuple[str, ...],
        by: str,
    ) -> tuple[str, str]:
        """Write the labels of a row, sorted, around the place of the label that varies."""
        values = dict(zip(labels, (*key, _HOLE) if by else key, strict=True)) | self._constant
        text = ",".join(f'{name}="{_escaped(values[name])}"' for name in sorted(values))
        before, _, after = (f"{{{text}}} " if text else " ").partition(_HOLE)
        pieces[key] = (before, after)
        return before, after


# Cannot be in a label that `safe_label` has seen.
_HOLE = "\x00"


class _Rendered:
    """One body, and what it was made of."""

    def __init__(self, snapshot: Snapshot | None, now: float, body: bytes) -> None:
        self._snapshot = snapshot
        self._now = now
        self._stale = snapshot is not None and is_stale(snapshot, now)
        self.body = body
        self._compressed: bytes | None = None

    def serves(self, snapshot: Snapshot, now: float) -> bool:
        # A snapshot that no other follows must not freeze the figures of the process as well.
        return (
            self._snapshot is snapshot
            and now - self._now < snapshot.interval_seconds
            and is_stale(snapshot, now) == self._stale
        )

    def compressed(self) -> bytes | None:
        if self._compressed is None and len(self.body) >= GZIP_FROM_BYTES:
            self._compressed = compressed(self.body)
        return self._compressed


def compressed(body: bytes) -> bytes:
    """Compress a body: level 1 saves nine tenths already, level 9 costs seven times as much CPU."""
    import gzip

    return gzip.compress(body, compresslevel=1, mtime=0)


def _asked(supply: Callable[[], Iterable[Reading]]) -> list[Reading]:
    """Ask one supplier; one that fails must not cost the page all the others."""
    try:
        return list(supply())
    except Exception:  # noqa: BLE001  (whatever it is, it is logged)
        _LOG.exception("bug in a supplier of metrics")
        return []


@cache
def head_of(spec: MetricSpec, fmt: Format) -> str:
    """Write what stands above the samples of a metric."""
    text = spec.help.replace("\\", r"\\").replace("\n", r"\n")
    if fmt is Format.TEXT:
        kind = Kind.GAUGE if spec.kind is Kind.INFO else spec.kind
        return f"# HELP {spec.name} {text}\n# TYPE {spec.name} {kind}\n"
    quoted = text.replace('"', r"\"")
    unit = f"# UNIT {spec.family} {spec.declared_unit}\n" if spec.declared_unit else ""
    return f"# HELP {spec.family} {quoted}\n# TYPE {spec.family} {spec.kind}\n{unit}"


def build_readings() -> list[Reading]:
    """Tell the versions of brokerwire and of Python."""
    versions = (exporter.__version__, platform.python_version())
    return [("brokerwire_build_info", versions, 1.0)]
