"""Whatever the clients call themselves, the page can be read and its sums are right."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from exporter.config.settings import LimitSettings
from exporter.metrics.exposition import Format
from exporter.metrics.labels import safe_label
from exporter.model import ClientKind, ClosedBy, ConnectionClass
from exporter.snapshot import (
    LIFETIME_BUCKETS,
    ClientBroker,
    Expectation,
    Histogram,
    Timing,
    Totals,
)
from tests.unit.metrics_page import page
from tests.unit.snapshots import AT, POLL, SOURCES, snapshot

# Any text at all: control characters, quotes, half surrogate pairs.
names = st.one_of(
    st.text(st.characters(), max_size=20),
    st.sampled_from(["", "a", 'a"b', "a\\", "a\nb", r"a\nb", "a\udce9", "\u202e", "x" * 300]),
)
counts = st.integers(0, 2**70)
seconds = st.floats(0, 1e12).map(abs)
pairs = st.builds(
    ClientBroker,
    client_id=names,
    client_kind=st.sampled_from([*map(str, ClientKind), "other"]),
    process=names,
    broker_id=st.sampled_from(["", "0", "1", "2147483646"]),
    broker=st.sampled_from(["10.0.0.1:9092", "[fd00::1]:9092"]),
)


def by_pair(values):
    return st.dictionaries(pairs, values, max_size=6)


histograms = st.builds(
    Histogram,
    counts=st.tuples(*[st.integers(0, 10**6)] * (len(LIFETIME_BUCKETS) + 1)),
    sum=seconds,
)
totals = st.builds(
    Totals,
    connection_seconds=st.dictionaries(
        st.tuples(pairs, st.sampled_from(ConnectionClass)), seconds, max_size=6
    ),
    useful_seconds=by_pair(seconds),
    opened=by_pair(counts),
    closed=st.dictionaries(st.tuples(pairs, st.sampled_from(ClosedBy)), counts, max_size=6),
    lifetimes=by_pair(histograms),
    outgoing_bytes=by_pair(counts),
    incoming_bytes=by_pair(counts),
    retransmits=by_pair(counts),
    connect_failures=by_pair(counts),
    probes=st.dictionaries(names, counts, max_size=4),
)
snapshots = st.builds(
    lambda counted, expected, timings, total, name, error: snapshot(
        (),
        counts=counted,
        expected=expected,
        timings=timings,
        totals=total,
        sources=(replace(SOURCES[0], name=name, error=error),),
        poll=replace(POLL, duration_seconds=0.5),
    ),
    by_pair(st.dictionaries(st.sampled_from(ConnectionClass), st.integers(0, 5000))),
    by_pair(st.builds(Expectation, st.integers(0, 9), st.just(()))),
    by_pair(st.builds(Timing, seconds, st.none() | seconds)),
    totals,
    names,
    names,
)


def rendered(snap, fmt: Format, series: int) -> bytes:
    return page(snap, AT, fmt, limits=LimitSettings(series=series))


def samples_of(families) -> list:
    """All samples but the process's own, which change between two pages."""
    return [
        (sample.name, sample.labels, sample.value)
        for family in families
        for sample in family.samples
        if not sample.name.startswith("process_")
    ]


@settings(deadline=None, max_examples=50)
@given(snapshots)
def test_both_formats_are_parsed_and_say_the_same(snap):
    text = rendered(snap, Format.TEXT, 10_000).decode()
    openmetrics = rendered(snap, Format.OPENMETRICS, 10_000).decode()
    assert samples_of(parse_text(text)) == samples_of(parse_openmetrics(openmetrics))


@settings(deadline=None, max_examples=50)
@given(snapshots, st.sampled_from([30, 100, 10_000]))
def test_no_series_appears_twice_and_sums_stay(snap, series):
    text = rendered(snap, Format.TEXT, series).decode()
    samples = [sample for family in parse_text(text) for sample in family.samples]
    series_names = [(s.name, tuple(sorted(s.labels.items()))) for s in samples]
    assert len(series_names) == len(set(series_names))
    held = sum(s.value for s in samples if s.name == "kafka_client_connections")
    assert held == sum(sum(classes.values()) for classes in snap.counts.values())


@given(names, st.integers(20, 200))
def test_a_safe_label_is_printable_short_and_stays_as_it_is(value, most):
    shown = safe_label(value, most)
    assert shown.isprintable()
    assert len(shown.encode()) <= most
    assert safe_label(shown, most) == shown
