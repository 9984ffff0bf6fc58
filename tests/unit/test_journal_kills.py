"""The journal's writer, killed: what it had acknowledged is there, whole, and nothing else is."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest

from exporter.config.journal import JournalFileSettings
from exporter.journal.file import JournalFile
from exporter.journal.lines import Lines
from exporter.journal.spool import Spool

KILLS = int(os.environ.get("JOURNAL_KILLS", "8"))
WRITER = """
import sys
from exporter.config.journal import JournalFileSettings
from exporter.journal.file import JournalFile
from exporter.journal.spool import Spool
from tests.unit.test_journal_kills import batch
file = JournalFile(JournalFileSettings(path=sys.argv[1] + "/journal.jsonl", max_bytes=1 << 30))
spool = Spool(sys.argv[1] + "/spool", 1 << 30)
for number in range(int(sys.argv[2]), 1_000_000):
    file.append(batch(number))
    spool.add(batch(number))
    print(number, flush=True)
"""


def batch(number):
    text = f'{{"n":{number}}}'.ljust(100).encode() + b"\n"
    return Lines(f"{number:015d}-0123456789ab-{number:010d}", text * 3, 3)


def spooled(folder):
    spool = Spool(str(folder / "spool"), 1 << 30)
    spool.open()
    names = []
    while (name := spool.oldest(names)) is not None:
        names.append(name)
    found = [b"".join(each + b"\n" for each in spool.read(name)) for name in names]
    assert spool.dropped_records == 0
    spool.close()
    return found


def test_what_was_acknowledged_outlives_kill_9(tmp_path):
    rng = random.Random(7)
    acknowledged = 0
    for _ in range(KILLS):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(acknowledged)], stdout=subprocess.PIPE
        ) as writer:
            for _ in range(rng.randint(1, 40)):
                acknowledged = int(writer.stdout.readline()) + 1
            writer.kill()
            for line in writer.stdout.read().splitlines():
                acknowledged = int(line) + 1
        file = JournalFile(JournalFileSettings(path=str(tmp_path / "journal.jsonl")))
        file.append(batch(999_999))
        file.close()
        lines = (tmp_path / "journal.jsonl").read_bytes().splitlines(keepends=True)
        assert set(lines) >= {batch(number).data[:101] for number in range(acknowledged)}
        assert all(line.startswith(b'{"n":') and len(line) == 101 for line in lines)
        found = spooled(tmp_path)
        assert found[:acknowledged] == [batch(number).data for number in range(acknowledged)]
        assert len(found) <= acknowledged + 1


def test_a_file_that_was_cut_at_any_byte_goes_on_with_whole_lines(tmp_path):
    path = tmp_path / "journal.jsonl"
    whole = b"".join(batch(number).data for number in range(3))
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        file = JournalFile(JournalFileSettings(path=str(path)))
        file.append(batch(9))
        file.close()
        kept = whole[: size - size % 101]
        assert path.read_bytes() == kept + batch(9).data


@pytest.mark.parametrize("how", ["cut", "flipped", "zeroed"])
def test_a_batch_in_the_spool_that_was_damaged_at_any_byte_is_seen(tmp_path, how):
    spool = Spool(str(tmp_path / "spool"), 1 << 20)
    for at in range(len(batch(1).data)):
        spool.add(batch(1))
        name = spool.oldest(())
        data = bytearray(batch(1).data)
        if how == "cut":
            del data[at:]
        elif how == "flipped":
            data[at] ^= 1 << at % 8
        else:
            data[at : at + 64] = bytes(len(data[at : at + 64]))
        (tmp_path / "spool" / name).write_bytes(data)
        assert spool.read(name) == []
        assert len(spool) == 0
    assert spool.dropped_records >= len(batch(1).data)
    spool.close()
