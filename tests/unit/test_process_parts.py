"""What the ladder of ownership is made of."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from exporter.config.settings import ProcessRule
from exporter.model import Endpoint, OwnerRung, TcpState
from exporter.processes.descriptors import holds_inode, socket_inodes
from exporter.processes.facts import learn_process, start_ticks
from exporter.processes.inode_search import InodeSearch
from exporter.processes.port_discovery import inodes_of, remote_ports_of
from exporter.processes.rungs import rung_access
from exporter.processes.socket_finder import SocketFinder
from exporter.processes.watch import ProcessWatch
from tests.unit.process_holders import (  # noqa: F401
    NOBODY_HOLDS,
    clock_fixture,
    holder_fixture,
    ladder_with,
    only_these,
    reading,
    start_fixture,
)


def test_looking_at_all_processes_takes_a_small_share_of_the_time(tmp_path):
    now = [0.0]

    def slow_clock():
        now[0] += 0.1
        return now[0]

    search = InodeSearch(proc=str(tmp_path), own_pid=1, clock=slow_clock, cpu_clock=slow_clock)
    looked = [search.find({NOBODY_HOLDS}, ())[1] for _ in range(100)]
    assert looked[:2] == [True, False]
    assert sum(looked) <= 10


@pytest.mark.parametrize("handles", [pytest.param(8, id="pidfd"), pytest.param(0, id="start-time")])
def test_end_of_a_process_is_seen_once(start, handles):
    staying, ending = start(), start()
    watch = ProcessWatch(most_handles=handles)
    for each in (staying, ending):
        assert watch.add(learn_process(each.pid))
    assert watch.ended() == frozenset()
    ending.end()
    assert watch.ended() == {ending.pid}
    assert watch.ended() == frozenset()
    watch.close()


def test_process_that_is_gone_cannot_be_watched(holder):
    facts = learn_process(holder.pid)
    holder.end()
    watch = ProcessWatch()
    assert not watch.add(facts)
    assert not watch.add(replace(facts, pid=os.getpid()))
    assert learn_process(holder.pid) is None


@pytest.mark.parametrize(
    "command", [pytest.param(c, id=c) for c in ("java", "a b", "x) S 1 2 (y", "((", ")")]
)
def test_start_time_is_found_behind_any_command(tmp_path, command):
    folder = tmp_path / "12"
    folder.mkdir()
    numbers = " ".join(str(n) for n in range(4, 53))
    (folder / "stat").write_text(f"12 ({command}) S {numbers}\n")
    assert start_ticks(12, proc=str(tmp_path)) == 22
    (folder / "stat").write_text("12 (cut) S 1")
    assert start_ticks(12, proc=str(tmp_path)) is None
    assert start_ticks(13, proc=str(tmp_path)) is None


def test_descriptors_of_a_process(holder):
    assert holder.inode in socket_inodes(holder.pid)
    assert holds_inode(holder.pid, holder.inode) is True
    assert holds_inode(holder.pid, NOBODY_HOLDS) is False


def test_process_that_cannot_be_looked_into_is_none_not_empty(holder):
    holder.end()
    assert socket_inodes(holder.pid) is None
    assert holds_inode(holder.pid, holder.inode) is None


# ---- which rungs are open, which ports ------------------------------------------------------------


def accesses(proc, own_pid=1, cgroup_id=None):
    found = rung_access(proc=str(proc), own_pid=own_pid, cgroup_id=cgroup_id)
    return {access.rung: access for access in found}


def test_agent_alone_is_told_to_share_the_process_namespace(tmp_path):
    access = accesses(only_these(tmp_path, os.getpid()), os.getpid())[OwnerRung.PROC_FD]
    assert not access.is_open
    assert "shareProcessNamespace" in access.reason


def test_agent_that_sees_descriptors_says_so(holder, tmp_path):
    access = accesses(only_these(tmp_path, holder.pid))[OwnerRung.PROC_FD]
    assert access.is_open
    assert "all 1 other" in access.reason


def test_hidden_processes_are_named_as_the_reason(tmp_path):
    (tmp_path / "self").mkdir()
    line = f"22 1 0:21 / {tmp_path} rw,nosuid - proc proc rw,hidepid=invisible\n"
    (tmp_path / "self" / "mountinfo").write_text(line)
    access = accesses(tmp_path)[OwnerRung.PROC_FD]
    assert "hidepid=invisible" in access.reason


@pytest.mark.parametrize(
    ("cgroup_id", "is_open", "says"),
    [
        pytest.param(None, False, "before 5.8", id="none"),
        pytest.param(1, False, "cgroup v1", id="root"),
        pytest.param(4711, True, "4711", id="container"),
    ],
)
def test_cgroup_rung(tmp_path, cgroup_id, is_open, says):
    access = accesses(tmp_path, cgroup_id=cgroup_id)[OwnerRung.CGROUP]
    assert access.is_open is is_open
    assert says in access.reason


def test_abilities_are_not_tried_at_each_poll(clock, tmp_path):
    ladder = ladder_with(clock, proc=tmp_path)
    first = ladder.abilities()
    assert len(first) == 3
    assert ladder.abilities() is first
    clock.now += 61
    assert ladder.abilities() is not first


class FakeTable:
    def __init__(self, *sockets) -> None:
        self.sockets = sockets

    def read(self):
        return self


def test_ports_of_any_port_processes_are_those_they_connected_to(holder):
    opened = reading(holder.inode, 1)
    table = FakeTable(
        replace(opened, remote=Endpoint("10.0.0.2", 31092)),
        replace(opened, cookie=2, local=Endpoint("10.0.0.1", 8080), remote=Endpoint("::1", 50000)),
        replace(
            opened,
            cookie=3,
            tcp_state=TcpState.LISTEN,
            local=Endpoint("0.0.0.0", 8080),
            remote=Endpoint("0.0.0.0", 0),
        ),
        replace(opened, cookie=4, inode=NOBODY_HOLDS, remote=Endpoint("10.0.0.2", 443)),
    )
    rule = ProcessRule(name="^python", any_port=True)
    assert remote_ports_of(inodes_of([rule]), table) == {31092}
    assert remote_ports_of(inodes_of([replace(rule, any_port=False)]), table) == frozenset()
    no_such = ProcessRule(name="^no such$", any_port=True)
    assert remote_ports_of(inodes_of([no_such]), table) == frozenset()


def test_without_an_any_port_rule_nothing_is_read(clock):
    assert ladder_with(clock, ProcessRule(name="x")).remote_ports_of_matching() == frozenset()


# ---- not reading all descriptors again ------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """A process's `fd` folder, to be filled with links."""
    descriptors = tmp_path / "7" / "fd"
    descriptors.mkdir(parents=True)
    return descriptors


def link(folder, number, inode):
    path = folder / str(number)
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/null" if inode is None else f"socket:[{inode}]")


def test_new_and_replaced_descriptors_are_found_without_reading_the_rest(folder, tmp_path):
    for number in range(50):
        link(folder, number, None if number % 2 else 1000 + number)
    finder = SocketFinder(7, proc=str(tmp_path))
    assert finder.look({1000, 1004, 9}, everywhere=True) == {1000, 1004}
    link(folder, 60, 2001)
    link(folder, 0, 2002)
    link(folder, 2, 2003)
    assert finder.look({2001, 2002, 2003}, everywhere=False) == {2001, 2002}
    assert finder.look({2003}, everywhere=True) == {2003}
    link(folder, 2, 2004)
    assert finder.look({2004}, everywhere=False) == {2004}


def test_process_without_a_folder_cannot_be_looked_into(tmp_path):
    assert SocketFinder(8, proc=str(tmp_path)).look({1}, everywhere=True) is None


def test_many_questions_about_one_process_are_one_look(folder, tmp_path, clock):
    for number in range(10):
        link(folder, number, 1000 + number)

    def holds(inode):
        return holds_inode(7, inode, proc=str(tmp_path), clock=clock)

    assert [holds(1000), holds(1009), holds(1010)] == [True, True, False]
    link(folder, 10, 1010)
    assert holds(1010) is False
    link(folder, 9, None)
    assert holds(1009) is False
    clock.now += 0.06
    assert [holds(1010), holds(1009)] == [True, False]
