"""A trace that is played longer than it was: counters go on, times are the play's, gaps stay gaps."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import yaml

from tools.replay_trace import (
    Trace,
    frame_of,
    metrics_of_rules,
    quiet_cycles,
    read_trace,
    unit_test_of,
)

PLACE = {"job": "brokerwire", "instance": "here:1"}
POLLED = "brokerwire_last_poll_timestamp_seconds{}"
ERRORS = "brokerwire_source_errors_total{}"
HELD = "kafka_client_connections{}"
BEGUN = 1_700_000_000.0


def trace(frames=12, step=5.0):
    return Trace(
        step,
        BEGUN,
        [{POLLED: BEGUN + step * n - 0.5, ERRORS: float(10 + n), HELD: 3.0} for n in range(frames)],
    )


def test_half_an_hour_has_as_many_scrapes_and_every_poll_is_fresh():
    played = quiet_cycles(trace(), 1800)
    assert len(played) == 360
    assert {round(5.0 * n - frame[POLLED], 6) for n, frame in enumerate(played)} == {0.5}
    assert {frame[HELD] for frame in played} == {3.0}


def test_counters_never_go_back_and_grow_as_they_did():
    played = [frame[ERRORS] for frame in quiet_cycles(trace(), 1800)]
    steps = Counter(later - earlier for earlier, later in pairwise(played))
    # Between two cycles nothing is known to have happened.
    assert steps == {1.0: 357, 0.0: 2}


def test_a_missed_scrape_is_no_end_of_a_series_and_an_absent_series_is():
    frames = [{HELD: 1.0}, None, {HELD: 1.0}, {}, {}, {HELD: 2.0}]
    [test] = yaml.safe_load(unit_test_of(frames, 15.0))["tests"]
    [series] = test["input_series"]
    assert series == {"series": HELD, "values": "1 _ 1 stale _ 2"}
    assert {case["eval_time"] for case in test["alert_rule_test"]} == {"1m"}


def test_a_scrape_is_read_with_the_labels_of_its_target(tmp_path):
    text = (
        "# TYPE brokerwire_source_errors counter\n"
        'brokerwire_source_errors_total{source="a \\"b\\""} 4\n'
        "# TYPE other gauge\nother 1\n"
    )
    assert frame_of(text, metrics_of_rules(), PLACE) == {
        'brokerwire_source_errors_total{source="a \\"b\\"",job="brokerwire",instance="here:1"}': 4.0,
        'up{job="brokerwire",instance="here:1"}': 1.0,
    }
    path = tmp_path / "trace.json"
    path.write_text('{"step": 5, "begun": 7, "scrapes": ["", null]}')
    assert read_trace(path, PLACE).frames == [{'up{job="brokerwire",instance="here:1"}': 1.0}, None]
