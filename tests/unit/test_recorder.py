from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.history import FIGURES
from exporter.model import ConnectionClass
from exporter.totals.recorder import MOST_CLIENTS, MOST_MARKS, Recorder
from exporter.web.history_document import history_document
from tests.unit.snapshots import AT, FINDING, connection, fleet, snapshot, zombie

START = 600_000.0


def take(recorder: Recorder, at: float, snap, **changes):
    values = {
        "by_class": snap.counts,
        "expected": snap.expected,
        "counted": (0, 0),
        "findings": snap.findings,
    }
    return recorder.take(at, **(values | changes))


def rows(history, ring: int = 0, at: float = START):
    return [
        (begin, dict(zip(FIGURES, row, strict=True))) for begin, row in history.rings[ring].rows(at)
    ]


def test_a_step_has_the_last_counts_within_it():
    recorder = Recorder()
    take(recorder, START, snapshot())
    history = take(recorder, START + 4.9, snapshot((connection(1), zombie(2), zombie(3))))
    ((begin, figures),) = rows(history)
    assert begin == START
    assert (figures["data"], figures["zombie"], figures["half_closed"]) == (1, 2, 0)


def test_what_opened_and_closed_adds_up_within_a_step():
    recorder, snap = Recorder(), snapshot()
    for second in range(3):
        history = take(recorder, START + second, snap, counted=(10 + 2 * second, second))
    ((_, figures),) = rows(history, at=START + 2)
    # What the first poll counted is of the time before it.
    assert (figures["opened"], figures["closed"]) == (4, 2)


def test_a_step_that_nobody_read_is_absent():
    recorder = Recorder()
    take(recorder, START, snapshot())
    history = take(recorder, START + 600, snapshot())
    assert [begin for begin, _ in rows(history, at=START + 600)] == [START, START + 600]


@pytest.mark.parametrize(("ring", "seconds", "steps"), [(0, 3600, 720), (1, 21600, 360)])
def test_only_the_last_hours_are_kept(ring, seconds, steps):
    recorder, snap = Recorder(), snapshot()
    for at in range(0, 2 * seconds, 5):
        history = take(recorder, START + at, snap)
    kept = rows(history, ring, START + 2 * seconds - 5)
    assert len(kept) == steps
    assert kept[0][0] == START + seconds


def test_a_finding_is_marked_where_it_begins_and_ends():
    recorder = Recorder()
    take(recorder, START, snapshot(findings=()))
    take(recorder, START + 1, snapshot())
    take(recorder, START + 2, snapshot())
    history = take(recorder, START + 3, snapshot(findings=()))
    assert [(mark.at - START, mark.kind, mark.name) for mark in history.marks] == [
        (0.0, "agent", ""),
        (1.0, "begin", FINDING.name),
        (3.0, "end", FINDING.name),
    ]


def test_findings_that_come_and_go_take_no_more_room():
    recorder = Recorder()
    for second in range(4 * MOST_MARKS):
        history = take(recorder, START + second, snapshot(findings=(FINDING,) * (second % 2)))
    assert len(history.marks) == MOST_MARKS


def test_a_client_s_hour_has_a_figure_for_each_minute():
    recorder = Recorder()
    for minute in range(70):
        snap = snapshot((connection(1), *(zombie(2 + each) for each in range(minute % 3))))
        history = take(recorder, START + 60 * minute, snap)
    (series,) = history.clients.values()
    assert len(series.connections) == 60
    assert list(series.connections[-3:]) == [2, 3, 1]
    assert list(series.wasted[-3:]) == [1, 2, 0]


def test_clients_beyond_the_limit_take_no_room():
    history = take(Recorder(), START, fleet(MOST_CLIENTS + 50, 1))
    assert len(history.clients) == MOST_CLIENTS


def test_a_snapshot_s_history_does_not_change_later():
    recorder = Recorder()
    first = take(recorder, START, snapshot())
    before = rows(first)
    take(recorder, START + 1, snapshot((zombie(1),)))
    assert rows(first) == before


def test_the_document_has_wall_times():
    recorder = Recorder()
    snap = snapshot()
    history = take(recorder, AT, snap)
    document = history_document(replace(snap, history=history))
    assert document["series"][0]["times"] == [round(snap.wall_time)]
    assert document["series"][0]["by_class"]["zombie"] == [1]
    assert set(document["series"][0]["by_class"]) == {str(each) for each in ConnectionClass}
