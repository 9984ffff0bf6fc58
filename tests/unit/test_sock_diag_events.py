"""Destroy events: every end is told once, and a loss is never silent."""

from __future__ import annotations

import socket
import struct

import pytest

from exporter.config.settings import PortRange
from exporter.errors import SourceDecodeError, SourceUnavailableError
from exporter.kernel.sock_diag import NetlinkSocketTable
from exporter.model import Endpoint
from tests.unit.sock_diag_records import CLOSE, DONE, EVENT, FakeKernel, Record, dump_of, message

ATTACH_FILTER = 26
PORTS = (PortRange(9092, 9092),)
OVERRUN = OSError(105, "No buffer space available")


class Reader:
    def __init__(self, kernel, ports=PORTS) -> None:
        self.kernel = kernel
        self.reads = 0
        self.table = NetlinkSocketTable(
            ports, clock=lambda: 50.0, open_socket=kernel.open, sleep=kernel.nap
        )

    def read(self, *records):
        self.reads += 1
        self.kernel.asked.script += dump_of(*records, sequence=self.reads)
        return self.table.read()


@pytest.fixture
def kernel():
    return FakeKernel()


@pytest.fixture
def reader(kernel):
    return Reader(kernel)


def ended(cookie, **changes):
    changes.setdefault("info", {"bytes_acked": 1002, "segs_in": 9})
    record = Record(cookie=cookie, state=CLOSE, kind=EVENT, uid=0, inode=0, **changes)
    return record.encode(sequence=0, flags=0)


def test_ends_come_with_the_reading_in_their_order(reader, kernel):
    kernel.heard.script += [ended(3), ended(1), ended(2)]
    reading = reader.read()
    assert [closed.cookie for closed in reading.closed] == [3, 1, 2]
    assert (reading.events_complete, reading.events_lost) == (True, 0)
    closed = reading.closed[0]
    assert (closed.local, closed.remote) == (
        Endpoint("10.0.0.1", 40000),
        Endpoint("10.0.0.2", 9092),
    )
    assert closed.info.bytes_acked == 1002
    assert reader.read().closed == ()


def test_several_events_in_one_datagram(reader, kernel):
    kernel.heard.script.append(ended(1) + ended(2))
    assert [closed.cookie for closed in reader.read().closed] == [1, 2]


def test_end_of_a_socket_that_the_dump_still_shows_is_told(reader, kernel):
    kernel.heard.script.append(ended(1))
    reading = reader.read(Record(cookie=1))
    assert [socket.cookie for socket in reading.sockets] == [1]
    assert [closed.cookie for closed in reading.closed] == [1]


def test_lost_port_is_kept_with_its_address_and_without_ages(reader, kernel):
    ages = {"last_data_sent": 1885840, "last_data_recv": 1885840, "last_ack_recv": 1885840}
    kernel.heard.script.append(ended(1, remote_port=0, info=ages))
    (closed,) = reader.read().closed
    assert closed.remote == Endpoint("10.0.0.2", 0)
    assert closed.info.last_data_sent_ms is None


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"remote_port": 443}, id="passed-an-older-filter"),
        pytest.param({"remote_port": 0, "remote": bytes(4)}, id="listener"),
        pytest.param({"remote_port": 0, "remote": bytes(16), "family": 10}, id="listener-v6"),
    ],
)
def test_what_was_no_connection_to_a_broker_is_left_out(reader, kernel, changes):
    kernel.heard.script.append(ended(1, **changes))
    assert reader.read().closed == ()


def test_without_ports_every_end_is_told(kernel):
    reader = Reader(kernel, ports=())
    kernel.heard.script.append(ended(1, remote_port=443))
    assert len(reader.read().closed) == 1


# ---- losses ---------------------------------------------------------------------------------------


def test_overrun_is_counted_once_and_what_was_left_is_told(reader, kernel):
    reader.read()
    kernel.heard.drops = 17
    kernel.heard.script += [OVERRUN, ended(1)]
    reading = reader.read()
    assert (reading.events_lost, reading.events_complete) == (17, False)
    assert [closed.cookie for closed in reading.closed] == [1]
    after = reader.read()
    assert (after.events_lost, after.events_complete) == (0, True)


def test_drops_are_counted_even_without_an_overrun(reader, kernel):
    """While the kernel is congested it drops without a second ENOBUFS."""
    kernel.heard.drops = 3
    assert reader.read().events_lost == 3


def test_where_nobody_counts_drops_an_overrun_is_at_least_one(reader, kernel):
    def refuse(*_):
        raise OSError(92, "Protocol not available")

    kernel.heard.getsockopt = refuse
    kernel.heard.script += [OVERRUN, OVERRUN]
    assert reader.read().events_lost == 2
    assert reader.read().events_lost == 0


def test_counter_of_drops_may_wrap(reader, kernel):
    kernel.heard.drops = 0xFFFFFFFF
    reader.read()
    kernel.heard.drops = 1
    assert reader.read().events_lost == 2


def test_refused_groups_leave_the_dump_and_say_that_ends_are_missed(kernel):
    kernel.refuse_groups = PermissionError(1, "no")
    reader = Reader(kernel)
    reading = reader.read(Record())
    assert len(reading.sockets) == 1
    assert (reading.closed, reading.events_complete) == ((), False)
    reader.table.set_ports((PortRange(1, 1),))


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        pytest.param(ended(1)[:-4], SourceDecodeError, id="cut"),
        pytest.param(bytes(7), SourceDecodeError, id="odd"),
        pytest.param(message(DONE, b""), SourceDecodeError, id="foreign-type"),
        pytest.param(ended(1) * 100, SourceDecodeError, id="too-long"),
        pytest.param(OSError(9, "Bad file descriptor"), SourceUnavailableError, id="broken"),
    ],
)
def test_broken_event_is_an_error_and_the_next_reading_says_that_ends_were_missed(
    reader, kernel, broken, error
):
    kernel.heard.script += [broken, ended(2)]
    with pytest.raises(error):
        reader.read()
    assert [each.closed for each in kernel.opened if each.groups] == [True]
    reading = reader.read()
    assert (reading.closed, reading.events_complete) == ((), False)
    assert reader.read().events_complete


# ---- the moment between ---------------------------------------------------------------------------


def test_event_that_is_late_is_waited_for(reader, kernel):
    reader.read(Record(cookie=1), Record(cookie=2, local_port=2))
    kernel.on_nap = [ended(1)]
    reading = reader.read(Record(cookie=2, local_port=2))
    assert [closed.cookie for closed in reading.closed] == [1]
    assert len(kernel.naps) == 1


def test_socket_that_never_gets_an_event_is_waited_for_once(reader, kernel):
    reader.read(Record(cookie=1))
    assert reader.read().closed == ()
    assert 0 < sum(kernel.naps) < 0.01
    naps = len(kernel.naps)
    reader.read()
    assert len(kernel.naps) == naps


def test_nothing_is_waited_for_when_all_ends_are_told(reader, kernel):
    reader.read(Record(cookie=1))
    kernel.heard.script.append(ended(1))
    reader.read()
    assert kernel.naps == []


def test_what_had_lost_its_figures_had_its_event_and_is_not_waited_for(reader, kernel):
    reader.read(Record(cookie=1, info_length=None, cgroup_id=None))
    reader.read()
    assert kernel.naps == []


# ---- set up and close -----------------------------------------------------------------------------


def test_filter_of_the_kernel_follows_the_ports(reader, kernel):
    def programs():
        return [
            struct.unpack("@HP", v)[0] for _, o, v in kernel.heard.options if o == ATTACH_FILTER
        ]

    (first,) = programs()
    reader.table.set_ports((*PORTS, PortRange(7, 9)))
    assert programs()[1:] == [first + 3]
    kernel.heard.script.append(ended(1, remote_port=8))
    assert len(reader.read().closed) == 1


def test_filter_that_the_kernel_refuses_is_replaced_here(kernel):
    reader = Reader(kernel)

    def refuse(*_):
        raise OSError(12, "Cannot allocate memory")

    kernel.heard.setsockopt = refuse
    reader.table.set_ports((PortRange(7, 7),))
    kernel.heard.script += [ended(1), ended(2, remote_port=7)]
    assert [closed.cookie for closed in reader.read().closed] == [2]


def test_as_much_room_as_allowed_is_asked_for(kernel):
    Reader(kernel)
    assert (socket.SOL_SOCKET, 33, 4 * 1024 * 1024) in kernel.heard.options


def test_closing_closes_both_sockets(kernel):
    reader = Reader(kernel)
    with reader.table:
        pass
    assert [each.closed for each in kernel.opened] == [True, True]
