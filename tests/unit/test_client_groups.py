"""Client groups read from a made /proc: epoll instances, threads, and what may not be read."""

from __future__ import annotations

import pytest

from exporter.model import Endpoint, Library, Owner, OwnerRung, SocketReading, TcpState
from exporter.processes import client_groups
from exporter.processes.client_groups import ClientGroups

PID = 41


def reading(inode):
    return SocketReading(
        at=0.0, cookie=inode + 1000, local=Endpoint("127.0.0.1", inode), remote=Endpoint("127.0.0.1", 9092),
        tcp_state=TcpState.ESTABLISHED, inode=inode, uid=0, cgroup_id=None, receive_queue=0, send_queue=0,
        retransmits=0, info=None,
    )  # fmt: skip


class Process:
    """A process in a /proc of its own; `started` after the agent unless said otherwise."""

    def __init__(self, proc, *, library=Library.JAVA, started=2.0, rung=OwnerRung.PROC_FD):
        self.folder = proc / str(PID)
        for name in ("fd", "fdinfo", "task"):
            (self.folder / name).mkdir(parents=True)
        self.owner = Owner(
            key="pid:41", rung=rung, name="java", pid=PID, started=started, library=library
        )

    def epoll(self, number, *inodes):
        link = self.folder / "fd" / str(number)
        link.unlink(missing_ok=True)
        link.symlink_to("anon_inode:[eventpoll]")
        lines = ["pos:\t0", "flags:\t02", "mnt_id:\t15", "ino:\t9"]
        lines += [
            f"tfd:{7:9d} events:{19:9x} data: 7f0b00000017  pos:0 ino:{inode:x} sdev:9"
            for inode in inodes
        ]
        (self.folder / "fdinfo" / str(number)).write_text("\n".join(lines) + "\n")

    def close(self, number):
        (self.folder / "fd" / str(number)).unlink()

    def threads(self, *names):
        for number, name in enumerate(names):
            folder = self.folder / "task" / str(number)
            folder.mkdir(exist_ok=True)
            (folder / "comm").write_text(name + "\n")


@pytest.fixture
def look(tmp_path):
    now = [0.0]
    groups = ClientGroups(started=1.0, proc=str(tmp_path), clock=lambda: now[0])

    def read(process, *inodes):
        now[0] += 100.0
        sockets = tuple(map(reading, inodes))
        owners = {each.cookie: process.owner for each in sockets}
        found = groups.read(sockets, owners)
        return found, {inode: found.of.get(inode + 1000) for inode in inodes}

    return read


def test_sockets_of_one_epoll_are_one_client(look, tmp_path):
    process = Process(tmp_path)
    process.epoll(5, 9, 100, 101)
    process.epoll(6, 9, 102)
    found, of = look(process, 100, 101, 102)
    assert of[100] == of[101] != of[102]
    assert (of[100].number, of[102].number) == (1, 2)
    assert found.readable == {"pid:41"}


def test_a_group_stays_while_its_sockets_come_and_go(look, tmp_path):
    process = Process(tmp_path)
    process.epoll(5, 9, 100)
    _, before = look(process, 100)
    process.epoll(5, 9, 100, 101)
    look(process, 100, 101)
    process.epoll(5, 9, 101)
    _, after = look(process, 101)
    assert after[101].key == before[100].key
    assert after[101].is_whole


def test_a_descriptor_that_another_client_may_have_is_not_known_from_its_beginning(look, tmp_path):
    process = Process(tmp_path)
    process.epoll(5, 9, 100)
    look(process, 100)
    process.epoll(5, 9, 101)
    _, of = look(process, 101)
    assert not of[101].is_whole


def test_a_client_made_while_the_process_was_watched_is_known_from_its_beginning(look, tmp_path):
    process = Process(tmp_path, started=0.5)
    process.epoll(5, 9, 100)
    _, first = look(process, 100)
    process.epoll(6, 9, 101)
    _, second = look(process, 100, 101)
    assert not first[100].is_whole
    assert second[101].is_whole


def test_a_number_is_used_again_for_a_client_with_the_same_descriptor(look, tmp_path):
    process = Process(tmp_path)
    for inode in range(100, 120):
        process.epoll(5, 9, inode)
        _, of = look(process, inode)
        assert of[inode].number == 1
        process.close(5)
        look(process)


def test_a_socket_in_two_epolls_is_in_no_group(look, tmp_path):
    process = Process(tmp_path)
    process.epoll(5, 100, 101)
    process.epoll(6, 100)
    _, of = look(process, 100, 101)
    assert of[100] is None
    assert of[101] is not None


def test_sockets_beside_a_brokers_in_one_epoll_are_named(look, tmp_path):
    process = Process(tmp_path)
    process.epoll(5, 9, 100, 555)
    process.epoll(6, 9, 777)
    found, _ = look(process, 100)
    assert found.unlisted == {555}


@pytest.mark.parametrize("library", [Library.LIBRDKAFKA, Library.UNKNOWN])
def test_other_runtimes_have_no_groups(look, tmp_path, library):
    process = Process(tmp_path, library=library)
    process.epoll(5, 9, 100)
    process.threads("rdk:main", "rdk:main", "rdk:broker-1")
    found, of = look(process, 100)
    assert of == {100: None}
    assert found.threads["pid:41"].librdkafka == 2


def test_clients_are_counted_by_their_threads(look, tmp_path):
    process = Process(tmp_path)
    process.threads(
        "kafka-producer-", "kafka-producer-", "kafka-admin-cli", "kafka-coordinat", "consumer_backgr", "main"
    )  # fmt: skip
    found, _ = look(process, 100)
    threads = found.threads["pid:41"]
    assert (threads.producers, threads.consumers, threads.admins) == (2, 2, 1)


def test_descriptors_that_may_not_be_read_are_said_to_be_closed(look, tmp_path):
    process = Process(tmp_path)
    (tmp_path / str(PID) / "fd").rmdir()
    found, of = look(process, 100)
    assert found.unreadable == {"pid:41"}
    assert of == {100: None}


def test_an_owner_without_a_process_has_no_groups(look, tmp_path):
    process = Process(tmp_path, rung=OwnerRung.CGROUP)
    process.epoll(5, 9, 100)
    found, of = look(process, 100)
    assert of == {100: None}
    assert not found.readable | found.unreadable


def test_more_than_a_client_can_have_is_not_read_in_part(look, tmp_path, monkeypatch):
    monkeypatch.setattr(client_groups, "_MOST_BYTES", 200)
    process = Process(tmp_path)
    process.epoll(5, 9, *range(100, 120))
    _, of = look(process, 100)
    assert of == {100: None}
