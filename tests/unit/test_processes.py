"""The ladder of ownership."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace

import pytest

from exporter.config.settings import ProcessRule
from exporter.model import Library, OwnerRung
from exporter.processes.facts import start_ticks
from exporter.processes.inode_search import InodeSearch
from tests.unit.process_holders import (  # noqa: F401
    NOBODY_HOLDS,
    clock_fixture,
    holder_fixture,
    ladder_with,
    only_these,
    reading,
    start_fixture,
)

# ---- the process that holds it --------------------------------------------------------------------


def test_owner_is_the_process_that_holds_the_socket(clock, holder):
    owner = ladder_with(clock).owners_of([reading(holder.inode)])[1]
    assert (owner.rung, owner.pid, owner.uid) == (OwnerRung.PROC_FD, holder.pid, os.getuid())
    assert owner.name.startswith("python")
    assert abs(owner.started - time.time()) < 60
    assert owner.library is Library.UNKNOWN


def test_sockets_of_one_process_have_one_owner(clock, holder):
    owners = ladder_with(clock).owners_of([reading(holder.inode, 1), reading(holder.inode, 2)])
    assert owners[1] is owners[2]


def test_own_sockets_are_left_out(clock, holder):
    readings = [reading(holder.inode)]
    assert ladder_with(clock, own_pid=holder.pid).owners_of(readings) == {}
    assert set(ladder_with(clock, own_pid=os.getpid()).owners_of(readings)) == {1}


@pytest.mark.parametrize(
    ("rule", "is_client"),
    [
        pytest.param(ProcessRule(name="^python"), True, id="name"),
        pytest.param(ProcessRule(name="^java$"), False, id="other-name"),
        pytest.param(ProcessRule(command=r"\bmy-consumer\b"), True, id="command"),
        pytest.param(ProcessRule(command="other"), False, id="other-command"),
        pytest.param(ProcessRule(name="python", command="other"), False, id="only-one-of-two"),
        pytest.param(ProcessRule(name="python", command="my-con"), True, id="both"),
    ],
)
def test_process_that_no_rule_means_is_no_client(clock, start, rule, is_client):
    holder = start(word="my-consumer")
    owners = ladder_with(clock, rule).owners_of([reading(holder.inode)])
    assert bool(owners) is is_client


def test_one_of_several_rules_is_enough(clock, holder):
    rules = ProcessRule(name="^java$"), ProcessRule(name="^python")
    assert ladder_with(clock, *rules).owners_of([reading(holder.inode)])


def test_unknown_process_stays_although_there_are_rules(clock):
    """It may well be a client: only a process that is known not to be one is left out."""
    ladder = ladder_with(clock, ProcessRule(name="^java$"))
    assert ladder.owners_of([reading(NOBODY_HOLDS, cgroup_id=4711)])[1].rung is OwnerRung.CGROUP


def test_command_line_is_in_no_text(clock, start):
    holder = start(word="sasl.password=hunter2")
    ladder = ladder_with(clock)
    owners = ladder.owners_of([reading(holder.inode)])
    assert "hunter2" not in repr(owners)
    assert "hunter2" not in repr(ladder._held)


def test_java_is_known_by_its_name(clock, start, tmp_path):
    program = tmp_path / "java"
    program.symlink_to(sys.executable)
    holder = start(program=str(program))
    assert ladder_with(clock).owners_of([reading(holder.inode)])[1].library is Library.JAVA


def test_librdkafka_is_known_by_the_names_of_its_threads(clock, start):
    holder = start("rdk:main", "rdk:broker1")
    assert ladder_with(clock).owners_of([reading(holder.inode)])[1].library is Library.LIBRDKAFKA


# ---- the lower rungs ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "rung", "name"),
    [
        pytest.param(
            reading(NOBODY_HOLDS, cgroup_id=4711), OwnerRung.CGROUP, "cgroup:4711", id="cgroup"
        ),
        pytest.param(reading(NOBODY_HOLDS, cgroup_id=1), OwnerRung.UID, "uid:1234", id="cgroup-v1"),
        pytest.param(reading(NOBODY_HOLDS), OwnerRung.UID, "uid:1234", id="no-cgroup"),
        pytest.param(reading(0), OwnerRung.NONE, "unattributed", id="nothing"),
        pytest.param(reading(0, cgroup_id=4711), OwnerRung.CGROUP, "cgroup:4711", id="orphan"),
    ],
)
def test_lower_rungs(clock, found, rung, name):
    owner = ladder_with(clock).owners_of([found])[1]
    assert (owner.rung, owner.name, owner.pid) == (rung, name, None)


def test_containers_are_told_apart_by_cgroup(clock):
    readings = [reading(NOBODY_HOLDS, n, cgroup_id=100 + n % 2) for n in range(4)]
    owners = ladder_with(clock).owners_of(readings)
    assert owners[0].key == owners[2].key != owners[1].key == owners[3].key


# ---- over time ------------------------------------------------------------------------------------


def test_nothing_is_done_again_for_the_same_reading(clock, holder):
    ladder = ladder_with(clock)
    readings = (reading(holder.inode),)
    assert ladder.owners_of(readings) is ladder.owners_of(readings)


def test_known_socket_is_not_searched_again(clock, holder, tmp_path):
    ladder = ladder_with(clock, proc=only_these(tmp_path, holder.pid))
    before = ladder.owners_of([reading(holder.inode)])
    ladder._search = None
    after = ladder.owners_of([replace(reading(holder.inode), send_queue=1)])
    assert after == before


def test_socket_that_has_no_holder_yet_is_searched_again(clock, holder, tmp_path):
    ladder = ladder_with(clock, proc=tmp_path)
    readings = [reading(holder.inode)]
    assert ladder.owners_of(readings)[1].rung is OwnerRung.UID
    only_these(tmp_path, holder.pid)
    assert ladder.owners_of(readings)[1].pid == holder.pid


def test_searching_in_vain_comes_to_an_end(clock, tmp_path):
    ladder = ladder_with(clock, proc=tmp_path)
    readings = [reading(NOBODY_HOLDS)]
    searched_at = []
    find = ladder._search.find

    def count(inodes, likely):
        searched_at.append(clock.now)
        return find(inodes, likely)

    ladder._search.find = count
    for _ in range(1000):
        ladder.owners_of(readings)
        clock.now += 1.0
    assert len(searched_at) == 5
    assert searched_at == [1000.0, 1001.0, 1006.0, 1036.0, 1156.0]


def test_last_trace_of_an_ended_process_stays_its_own(clock, holder):
    """Killed with data unsent, the kernel goes on alone: no inode, but still that client's."""
    ladder = ladder_with(clock)
    before = ladder.owners_of([reading(holder.inode)])
    holder.end()
    assert ladder.owners_of([reading(0)]) == before
    assert ladder.owners_of([reading(0)]) == before


def test_socket_that_outlives_its_process_gets_a_new_owner_a_poll_later(clock, start, tmp_path):
    first, second = start(), start()
    ladder = ladder_with(clock, proc=only_these(tmp_path, first.pid))
    readings = [reading(first.inode)]
    assert ladder.owners_of(readings)[1].pid == first.pid
    first.end()
    # The same socket, now (as after a fork) in the hands of another process.
    readings = [replace(reading(first.inode), inode=second.inode)]
    only_these(tmp_path, second.pid)
    assert ladder.owners_of(readings)[1].pid == first.pid
    assert ladder.owners_of(readings)[1].pid == second.pid


def test_gone_sockets_and_ended_processes_are_forgotten(clock, holder):
    ladder = ladder_with(clock)
    ladder.owners_of([reading(holder.inode, 1), reading(NOBODY_HOLDS, 2)])
    holder.end()
    assert ladder.owners_of([]) == {}
    assert ladder.owners_of([]) == {}
    assert not ladder._held
    assert not ladder._fallen
    assert not ladder._searches
    assert not ladder._processes


def test_another_process_with_the_same_pid_is_another_owner(clock, holder, tmp_path):
    """As seen through the start time: the folder of one process turns into another's."""
    folder = tmp_path / "proc"
    folder.mkdir()
    (folder / "77").symlink_to(f"/proc/{holder.pid}")
    search = InodeSearch(proc=str(folder), own_pid=1, clock=clock, cpu_clock=clock)
    found, _ = search.find({holder.inode}, ())
    assert found[holder.inode].ticks == start_ticks(holder.pid)
    assert start_ticks(os.getpid()) != start_ticks(holder.pid)
