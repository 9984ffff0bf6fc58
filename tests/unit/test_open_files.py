"""Open files of the clients' processes: right where they can be read, absent where they cannot."""

from __future__ import annotations

import os
import resource
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.processes.open_files import LOOK_SECONDS, OpenFilesWatch, open_files_of
from exporter.snapshot import OpenFiles
from tests.unit.process_holders import Clock
from tests.unit.snapshots import PROCESS, SIDE_PROCESS

LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max processes             4096                 8192                 processes
Max open files            {}                 1048576              files
"""
USUAL = LIMITS.format(1024)
USUAL = LIMITS.format(1024)


def put(proc, limits=USUAL):
    """A process of three descriptors."""
    folder = proc / "41" / "fd"
    folder.mkdir(parents=True)
    for number in range(3):
        (folder / str(number)).touch()
    if limits is not None:
        (proc / "41" / "limits").write_text(limits)
    return str(proc)


def test_this_process_is_seen_as_it_is():
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    listed = len(list(Path("/proc/self/fd").iterdir()))
    # A listing holds a descriptor of its own while it reads, the size of the folder does not.
    assert open_files_of(os.getpid()) in {OpenFiles(listed - 1, soft), OpenFiles(listed, soft)}


def test_who_has_ended_is_unknown():
    assert open_files_of(2**30) is None


def test_an_older_kernel_gives_the_folder_no_size_and_is_counted(tmp_path):
    proc = put(tmp_path)
    assert open_files_of(41, proc=proc, size_of=lambda _: 0) == OpenFiles(3, 1024)
    assert open_files_of(41, proc=proc, size_of=lambda _: 900) == OpenFiles(900, 1024)


def test_a_folder_that_may_not_be_listed_is_unknown(tmp_path):
    def refuse(_):
        raise PermissionError

    assert open_files_of(41, proc=put(tmp_path), size_of=refuse) is None


def test_a_process_without_descriptors_has_ended(tmp_path):
    (tmp_path / "41" / "fd").mkdir(parents=True)
    assert open_files_of(41, proc=str(tmp_path), size_of=lambda _: 0) is None


@pytest.mark.parametrize(
    "limits", [None, "", LIMITS.format("unlimited"), "Max open files\n", LIMITS[:80]]
)
def test_a_limit_that_is_not_told_is_none(tmp_path, limits):
    assert open_files_of(41, proc=put(tmp_path, limits), size_of=lambda _: 3) == OpenFiles(3, None)


def test_of_processes_of_one_name_the_nearest_to_its_limit_counts():
    seen = {
        1: OpenFiles(500, 1024),
        2: OpenFiles(90, 100),
        3: OpenFiles(9000, None),
        4: OpenFiles(7, None),
    }
    workers = [replace(PROCESS, pid=pid) for pid in (1, 2, 3)]
    other = replace(PROCESS, pid=4, name="billing")
    watch = OpenFilesWatch(look=seen.get, clock=Clock())
    told = watch.of([*workers, other, replace(PROCESS, pid=5, name="ended"), SIDE_PROCESS])
    assert told == {"orders": OpenFiles(90, 100), "billing": OpenFiles(7, None)}


def test_it_looks_rarely_and_once_at_each_process():
    looks, clock = [], Clock()

    def look(pid):
        looks.append(pid)
        return OpenFiles(len(looks), 1024)

    watch = OpenFilesWatch(look=look, clock=clock)
    first = watch.of([PROCESS, PROCESS])
    clock.now += LOOK_SECONDS - 1
    assert watch.of([PROCESS]) is first
    clock.now += 1
    assert watch.of([PROCESS]) == {"orders": OpenFiles(2, 1024)}
    assert first == {"orders": OpenFiles(1, 1024)}
    assert looks == [PROCESS.pid] * 2
