"""Whose a real socket is, as root, as the same user and as another; and dead descriptors."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from exporter.config.settings import PortRange, ProcessRule
from exporter.kernel.own_connections import OWN_RECEIVE_BUFFER, leave_out_own
from exporter.kernel.sock_diag import NetlinkSocketTable
from exporter.model import OwnerRung
from exporter.processes.descriptors import dead_tcp_sockets, holds_inode
from exporter.processes.owners import OwnerLadder
from tests.integration.kernel_support import (  # noqa: F401
    NOBODY,
    ROOT,
    SOMEBODY,
    as_user,
    cgroup,
    client_process,
    cookie_of,
    needs_root,
    own_network_fixture,
    reset_on_close,
)

pytestmark = [pytest.mark.root, needs_root, pytest.mark.usefixtures("own_network")]

PORT = 9092
ADDRESS = "127.0.0.1"
PORTS = (PortRange(PORT, PORT),)

OWNERS = """
import json
from exporter.config.settings import PortRange
from exporter.processes.owners import OwnerLadder
from exporter.kernel.sock_diag import NetlinkSocketTable
with NetlinkSocketTable((PortRange(9092, 9092),)) as table:
    owners = OwnerLadder(()).owners_of(table.read().sockets)
print(json.dumps([[owner.rung, owner.name, owner.pid] for owner in owners.values()]))
"""


@pytest.fixture
def server(own_network):
    del own_network
    with socket.create_server((ADDRESS, PORT)) as listening:
        yield listening


@pytest.mark.usefixtures("server")
def test_root_sees_the_process():
    with client_process(PORT, uid=NOBODY) as client, NetlinkSocketTable(PORTS) as table:
        (owner,) = OwnerLadder(()).owners_of(table.read().sockets).values()
    assert (owner.rung, owner.pid, owner.uid) == (OwnerRung.PROC_FD, client.pid, NOBODY)


@pytest.mark.usefixtures("server")
def test_same_user_needs_no_capability_to_see_the_process():
    with client_process(PORT, uid=NOBODY) as client:
        ((rung, name, pid),) = as_user(NOBODY, OWNERS)
    assert (rung, pid) == (OwnerRung.PROC_FD, client.pid)
    assert name.startswith("python")


@pytest.mark.usefixtures("server")
def test_another_user_falls_to_the_uid():
    with client_process(PORT, uid=NOBODY):
        assert as_user(SOMEBODY, OWNERS) == [[OwnerRung.UID, f"uid:{NOBODY}", None]]


@pytest.mark.usefixtures("server")
def test_containers_are_told_apart_without_any_look_into_their_processes():
    with (
        cgroup() as first,
        cgroup() as second,
        client_process(PORT, 2, uid=NOBODY, folder=first),
        client_process(PORT, 1, uid=NOBODY, folder=second),
    ):
        owners = as_user(SOMEBODY, OWNERS)
        names = [f"cgroup:{folder.stat().st_ino}" for folder in (first, first, second)]
    assert sorted(owners) == sorted([OwnerRung.CGROUP, name, None] for name in names)


@pytest.mark.usefixtures("server")
def test_agents_own_connections_are_no_clients():
    with socket.create_connection((ADDRESS, PORT)), NetlinkSocketTable(PORTS) as table:
        sockets = table.read().sockets
        assert len(sockets) == 1
        assert OwnerLadder(()).owners_of(sockets) == {}


@pytest.mark.usefixtures("server")
def test_agents_own_connection_that_is_closed_before_its_owner_is_looked_up_is_no_clients():
    with NetlinkSocketTable(PORTS, buffers=True) as table:
        own, other = socket.socket(), socket.socket()
        own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, OWN_RECEIVE_BUFFER)
        own.connect((ADDRESS, PORT))
        other.connect((ADDRESS, PORT))
        reading = table.read()
        nameless = cookie_of(other)
        own.close()
        other.close()
        owners = OwnerLadder(()).owners_of(reading.sockets)
        # That of another process would look as this one does: known by its uid, or cgroup, alone.
        assert leave_out_own(reading, owners, set()).owners.keys() == {nameless}


def test_orphan_stays_its_clients(server):
    with NetlinkSocketTable(PORTS) as table:
        ladder = OwnerLadder(())
        with client_process(PORT, 3) as client:
            accepted = [server.accept()[0] for _ in range(3)]
            before = ladder.owners_of(table.read().sockets)
            assert {owner.pid for owner in before.values()} == {client.pid}
        for _ in range(3):
            sockets = table.read().sockets
            assert [each.inode for each in sockets] == [0, 0, 0]
            assert ladder.owners_of(sockets) == before
        for each in accepted:
            each.close()


def test_any_port_process_is_found_by_its_connections():
    rules = [ProcessRule(command="create_connection", any_port=True)]
    with socket.create_server((ADDRESS, 31092)), client_process(31092):
        assert OwnerLadder(rules).remote_ports_of_matching() == {31092}


PID_REUSE = """
import json, os, socket, subprocess, sys, time
from exporter.config.settings import PortRange
from exporter.processes.owners import OwnerLadder
from exporter.kernel.sock_diag import NetlinkSocketTable
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
server = socket.create_server(("127.0.0.1", 9092))
code = "import socket,sys\\nc=socket.create_connection(('127.0.0.1',9092))\\nprint(1,flush=True)\\nsys.stdin.readline()"
def start(pid):
    with open("/proc/sys/kernel/ns_last_pid", "w") as file:
        file.write(str(pid - 1))
    child = subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1)
    child.stdout.readline()
    return child
seen = []
with NetlinkSocketTable((PortRange(9092, 9092),)) as table:
    ladder = OwnerLadder(())
    for _ in range(int(sys.argv[1])):
        child = start(4000)
        accepted = server.accept()[0]
        sockets = [s for s in table.read().sockets if s.inode]
        owners = ladder.owners_of(sockets)
        seen += [[owner.pid, child.pid, owner.key] for owner in owners.values()]
        child.kill(); child.communicate(); accepted.close()
        time.sleep(0.02)
print(json.dumps(seen))
"""


def test_reused_pid_is_never_the_owner_that_it_was_before():
    """In a pid namespace of its own, where the next pid can be chosen."""
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", PID_REUSE, "10"]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert len(seen) == 10
    assert {owner for owner, _, _ in seen} == {child for _, child, _ in seen} == {4000}
    assert len({key for _, _, key in seen}) == 10


# ---- ghosts ---------------------------------------------------------------------------------------

DEAD = """
import json, sys
from exporter.processes.descriptors import dead_tcp_sockets
found = dead_tcp_sockets(int(sys.argv[1]), set())
print(json.dumps(found if found is None else [each.inode for each in found]))
"""


def reset_by_server(server, count):
    accepted = [server.accept()[0] for _ in range(count)]
    for each in accepted:
        each.sendall(b"bye")
        reset_on_close(each)
        each.close()
    time.sleep(0.05)


def test_reset_connection_leaves_the_table_but_not_its_process(server):
    with client_process(PORT, 3, uid=NOBODY) as client, NetlinkSocketTable(PORTS) as table:
        before = table.read().sockets
        assert len(before) == 3
        reset_by_server(server, 2)
        reading = table.read()
        alive = {each.inode for each in reading.sockets}
        lost = [each for each in before if each.inode not in alive]
        assert len(lost) == 2
        # The kernel tells of no end: the socket is dead, not gone.
        assert reading.closed == ()
        assert reading.events_complete
        assert [holds_inode(client.pid, each.inode) for each in lost] == [True, True]
        found = dead_tcp_sockets(client.pid, alive)
        assert {each.inode for each in found} == {each.inode for each in lost}
        assert {each.local for each in found} == {each.local for each in lost}
        assert {each.bytes_received for each in found} == {3}
        inodes = sorted(each.inode for each in lost)
        assert sorted(as_user(NOBODY, DEAD, client.pid)) == inodes
        assert as_user(SOMEBODY, DEAD, client.pid) is None


@pytest.mark.usefixtures("server")
def test_live_listening_and_unconnected_sockets_are_not_dead():
    with client_process(PORT, 3) as client:
        assert dead_tcp_sockets(client.pid, frozenset()) == ()
    assert dead_tcp_sockets(client.pid, frozenset()) is None


def open_files():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_looking_for_dead_sockets_leaves_no_descriptor_behind(server):
    with client_process(PORT, 3) as client:
        reset_by_server(server, 3)
        before = open_files()
        for _ in range(50):
            assert len(dead_tcp_sockets(client.pid, frozenset())) == 3
        assert open_files() == before
