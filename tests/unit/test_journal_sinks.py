"""The journal on disk: whole lines or none, bounded, and never in anybody's way."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import shutil
from contextlib import contextmanager

import pytest

from exporter.config.journal import JournalFileSettings, JournalSettings
from exporter.journal.file import JournalFile
from exporter.journal.lines import Lines, lines_of
from exporter.journal.retry_queue import MOST_BATCHES, RetryQueue
from exporter.journal.sink import JournalSink
from exporter.journal.spool import BLOCK, Spool
from exporter.totals.journal_values import Batch
from tests.unit.journals import VALIDATOR, Bench, socket


def lines(number, records=2, size=20):
    text = f"{number:04d}".ljust(size - 1, ".").encode() + b"\n"
    return Lines(f"{number:015d}-0123456789ab-{number:010d}", text * records, records)


def files_in(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def journal(tmp_path):
    made = []

    def make(**changes):
        settings = JournalFileSettings(path=str(tmp_path / "j" / "journal.jsonl"), **changes)
        made.append(JournalFile(settings))
        return made[-1]

    yield make
    for each in made:
        each.close()


@contextmanager
def no_file_larger_than(size):
    """What a full disk does to a write: some of it is written, the next byte is not."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


# ---- lines ------------------------------------------------------------------------------------


def test_a_batch_is_a_line_a_record():
    bench = Bench()
    bench.poll(socket(1), seconds=0)
    bench.finish(10)
    made = lines_of(bench.batches[0], 128)
    assert made.data.endswith(b"\n")
    records = [json.loads(line) for line in made.data.splitlines()]
    assert records == [dict(record) for record in bench.batches[0].records]
    assert made.records == len(records)


def test_a_hostile_name_stays_on_its_line_and_is_cut():
    bench = Bench()
    bench.poll(socket(1), seconds=0)
    bench.finish(10)
    agent, record, *_ = bench.batches[0].records
    hostile = dict(record) | {"client_id": "a\nb\x00\u2028\udcff" + "x" * 10_000}
    made = lines_of(Batch(at_ms=1, final=True, records=(agent, hostile)), 128)
    assert made.data.count(b"\n") == 2
    read = json.loads(made.data.splitlines()[1])
    VALIDATOR.validate(read)
    assert len(read["client_id"]) <= 128
    assert read["boot_id"] == record["boot_id"]


def test_names_sort_by_time():
    bench = Bench(interval=1.0)
    for _ in range(15):
        bench.poll()
    names = [lines_of(batch, 128).name for batch in bench.batches]
    assert names == sorted(names)
    assert len(set(names)) == len(names)


# ---- the file ---------------------------------------------------------------------------------


def test_batches_are_appended_over_restarts(journal, tmp_path):
    for number in (1, 2):
        file = journal()
        file.append(lines(number))
        file.close()
    text = (tmp_path / "j" / "journal.jsonl").read_bytes()
    assert text == lines(1).data + lines(2).data


def test_a_full_file_is_put_aside_and_the_oldest_go(journal, tmp_path):
    file = journal(max_bytes=100, max_files=3)
    for number in range(1, 12):
        file.append(lines(number))
    names = files_in(tmp_path / "j")
    assert len(names) == 3
    kept = b"".join((tmp_path / "j" / name).read_bytes() for name in names)
    assert kept == b"".join(lines(number).data for number in range(7, 12))
    assert all((tmp_path / "j" / name).stat().st_size <= 100 for name in names)


def test_only_its_own_files_go(journal, tmp_path):
    file = journal(max_bytes=1, max_files=1)
    file.append(lines(1))
    strangers = [
        "journal.jsonl.gz",
        "journal-backup.jsonl",
        "other-000000000000001-ab-0000000001.jsonl",
    ]
    for name in strangers:
        (tmp_path / "j" / name).touch()
    for number in range(2, 5):
        file.append(lines(number))
    assert files_in(tmp_path / "j") == sorted([*strangers, "journal.jsonl"])


def test_half_a_line_that_a_kill_left_is_taken_away(journal, tmp_path):
    file = journal()
    file.append(lines(1))
    file.close()
    path = tmp_path / "j" / "journal.jsonl"
    with path.open("ab") as torn:
        torn.write(b'{"schema_version":1,"ki' * 10_000)
    journal().append(lines(2))
    assert path.read_bytes() == lines(1).data + lines(2).data


def test_a_write_that_was_cut_short_leaves_nothing(journal, tmp_path):
    file = journal()
    file.append(lines(1))
    with no_file_larger_than(50), pytest.raises(OSError, match="No space left"):
        file.append(lines(2))
    path = tmp_path / "j" / "journal.jsonl"
    assert path.read_bytes() == lines(1).data
    file.append(lines(2))
    assert path.read_bytes() == lines(1).data + lines(2).data


def test_a_file_that_was_moved_away_is_made_anew(journal, tmp_path):
    file = journal()
    file.append(lines(1))
    path = tmp_path / "j" / "journal.jsonl"
    path.rename(tmp_path / "elsewhere")
    file.append(lines(2))
    assert path.read_bytes() == lines(2).data
    assert (tmp_path / "elsewhere").read_bytes() == lines(1).data


def test_two_agents_do_not_write_one_file(journal):
    first, second = journal(), journal()
    first.append(lines(1))
    with pytest.raises(OSError, match="temporarily unavailable"):
        second.append(lines(2))
    first.close()
    second.append(lines(2))


def test_no_symbolic_link_is_followed(journal, tmp_path):
    (tmp_path / "j").mkdir()
    (tmp_path / "precious").write_bytes(b"half a line")
    (tmp_path / "j" / "journal.jsonl").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic"):
        journal().append(lines(1))
    assert (tmp_path / "precious").read_bytes() == b"half a line"


# ---- the spool --------------------------------------------------------------------------------


@pytest.fixture
def spool(tmp_path):
    made = []

    def make(max_bytes=1 << 20):
        made.append(Spool(str(tmp_path / "spool"), max_bytes))
        made[-1].open()
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_the_spool_outlives_its_agent(spool):
    first = spool()
    for number in (2, 1, 3):
        first.add(lines(number))
    first.close()
    second = spool()
    assert len(second) == 3
    assert second.room == 3 * BLOCK
    names = []
    while (name := second.oldest(names)) is not None:
        names.append(name)
    assert [second.read(name) for name in names] == [
        lines(number).data.splitlines() for number in (1, 2, 3)
    ]
    for name in names:
        second.remove(name)
    second.close()
    assert len(spool()) == 0


def test_the_oldest_go_where_there_is_no_room_and_are_counted(spool, tmp_path):
    small = spool(max_bytes=3 * BLOCK)
    for number in range(1, 6):
        small.add(lines(number, records=number))
    assert small.dropped_records == 1 + 2
    assert small.room == 3 * BLOCK
    assert len(files_in(tmp_path / "spool")) == 3
    assert small.read(small.oldest(())) == lines(3, records=3).data.splitlines()


def test_a_batch_that_was_not_whole_is_not_there(spool, tmp_path):
    (tmp_path / "spool").mkdir()
    torn = tmp_path / "spool" / f"{lines(1).name}.jsonl.new"
    torn.write_bytes(b"half")
    assert len(spool()) == 0
    assert not torn.exists()


def test_a_full_disk_leaves_no_half_batch(spool, tmp_path):
    whole = spool()
    with no_file_larger_than(10), pytest.raises(OSError, match="File too large"):
        whole.add(lines(1))
    assert files_in(tmp_path / "spool") == []
    whole.add(lines(1))
    assert len(whole) == 1


def test_a_spool_belongs_to_one_agent(spool, tmp_path):
    spool()
    with pytest.raises(OSError, match="temporarily unavailable"):
        Spool(str(tmp_path / "spool"), 1 << 20).add(lines(1))


def test_a_batch_that_somebody_removed_is_no_batch(spool, tmp_path):
    mine = spool()
    mine.add(lines(1))
    name = mine.oldest(())
    (tmp_path / "spool" / name).unlink()
    assert mine.read(name) == []
    assert len(mine) == 0


def test_a_folder_that_was_removed_is_made_again_with_its_lock(spool, tmp_path):
    mine = spool()
    mine.add(lines(1))
    shutil.rmtree(tmp_path / "spool")
    mine.add(lines(2))
    assert [mine.read(mine.oldest(()))] == [lines(2).data.splitlines()]
    assert len(mine) == 1
    with pytest.raises(OSError, match="temporarily unavailable"):
        Spool(str(tmp_path / "spool"), 1 << 20).open()


def test_a_folder_that_was_replaced_is_not_written_beside_its_lock(spool, tmp_path):
    mine = spool()
    (tmp_path / "spool").rename(tmp_path / "away")
    other = Spool(str(tmp_path / "spool"), 1 << 20)
    other.open()
    with pytest.raises(OSError, match="temporarily unavailable"):
        mine.add(lines(1))
    other.close()


def plant(kind, path, victim):
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to(victim if kind == "link" else victim.parent / "nowhere")


@pytest.mark.parametrize("kind", ["link", "dangling", "fifo"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_what_others_put_into_the_spool_is_neither_followed_nor_waited_for(
    spool, tmp_path, kind, when
):
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    folder = tmp_path / "spool"
    mine = spool()
    mine.add(lines(1))
    name = mine.oldest(())
    mine.remove(name)
    if when == "before":
        mine.close()
    plant(kind, folder / f"{name}.new", victim)
    plant(kind, folder / f"{lines(9).name}.jsonl", victim)
    mine.add(lines(1))
    assert mine.read(name) == lines(1).data.splitlines()
    assert victim.read_text() == "untouched"
    assert len(mine) == 1


@pytest.mark.parametrize("kind", ["link", "dangling", "fifo"])
def test_what_was_put_in_a_batch_s_place_is_dropped_and_holds_up_no_other(spool, tmp_path, kind):
    (tmp_path / "victim").write_text("secret")
    mine = spool()
    mine.add(lines(1))
    mine.add(lines(2))
    name = mine.oldest(())
    (tmp_path / "spool" / name).unlink()
    plant(kind, tmp_path / "spool" / name, tmp_path / "victim")
    assert mine.read(name) == []
    assert mine.read(mine.oldest(())) == lines(2).data.splitlines()


def test_a_batch_that_the_disk_has_damaged_is_dropped_and_counted(spool, tmp_path, caplog):
    mine = spool()
    mine.add(lines(1, records=20))
    mine.add(lines(2))
    name = mine.oldest(())
    with (tmp_path / "spool" / name).open("r+b") as file:
        file.seek(512)
        file.write(bytes(512))
    assert mine.read(name) == []
    assert mine.dropped_records >= 1
    assert "damaged" in caplog.text
    assert mine.read(mine.oldest(())) == lines(2).data.splitlines()


def test_a_spool_of_the_version_before_checksums_is_read(spool, tmp_path):
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / f"{lines(1).name}.jsonl").write_bytes(lines(1).data)
    mine = spool()
    assert mine.read(mine.oldest(())) == lines(1).data.splitlines()


# ---- the way there ----------------------------------------------------------------------------


def test_what_could_not_be_written_is_written_later_in_order():
    written, trouble = [], [OSError(28, "No space left on device", "/x")]

    def write(each):
        if trouble:
            raise trouble[0]
        written.append(each)

    queue = RetryQueue("file", write, lambda: 7.0)
    for number in (1, 2):
        queue.put(lines(number))
        queue.write()
    assert queue.waits
    assert (queue.figures.records, queue.figures.failures) == (0, 2)
    trouble.clear()
    queue.write()
    assert written == [lines(1), lines(2)]
    assert not queue.waits
    assert (queue.figures.records, queue.figures.dropped) == (4, 0)
    assert queue.figures.last_success == 7.0


def test_what_waits_is_bounded():
    def write(_):
        raise OSError(28, "No space left on device")

    queue = RetryQueue("file", write, lambda: 0.0)
    for number in range(MOST_BATCHES + 10):
        queue.put(lines(number))
    assert queue.figures.dropped == 20


def test_the_sink_writes_what_was_taken_before_it_ends(tmp_path):
    path = tmp_path / "journal.jsonl"
    settings = JournalSettings(file=JournalFileSettings(path=str(path)))
    sink = JournalSink(settings, "a", 128)
    sink.start()
    bench = Bench(interval=1.0)
    for _ in range(20):
        bench.poll(socket(1))
    bench.finish(0.5)
    for batch in bench.batches:
        sink.take(batch)
    sink.stop()
    records = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert records == [dict(each) for batch in bench.batches for each in batch.records]
    figures = {name: value for name, _labels, value in sink.readings()}
    assert figures["brokerwire_journal_records_total"] == len(records)
    assert figures["brokerwire_journal_bytes_total"] == path.stat().st_size
    assert figures["brokerwire_journal_failures_total"] == 0
    assert figures["brokerwire_own_broker_connections"] == 0


def test_a_folder_that_cannot_be_had_costs_only_the_file(tmp_path):
    (tmp_path / "file").touch()
    settings = JournalSettings(file=JournalFileSettings(path=str(tmp_path / "file" / "j.jsonl")))
    sink = JournalSink(settings, "a", 128)
    sink.start()
    bench = Bench()
    bench.poll(seconds=0)
    bench.finish(1)
    sink.take(bench.batches[0])
    sink.stop()
    figures = {name: value for name, _labels, value in sink.readings()}
    assert figures["brokerwire_journal_failures_total"] >= 1
    assert figures["brokerwire_journal_records_total"] == 0


def test_the_lock_of_the_file_ends_with_it(journal, tmp_path):
    file = journal(max_bytes=1)
    file.append(lines(1))
    file.append(lines(2))
    aside = next(path for path in (tmp_path / "j").iterdir() if path.name != "journal.jsonl")
    descriptor = os.open(aside, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)
