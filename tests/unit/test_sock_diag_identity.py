"""A reading is the same object as long as nothing happened to its socket, and only then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.config.settings import PortRange
from exporter.kernel.sock_diag import NetlinkSocketTable
from tests.unit.sock_diag_records import (
    CLOSE_WAIT,
    FIN_WAIT2,
    FakeKernel,
    Record,
    done,
    dump_of,
)


class Reader:
    """Reads one dump after the other; each is taken one second later."""

    def __init__(self) -> None:
        self.kernel = FakeKernel()
        self.now = 0.0
        self.reads = 0
        self.table = NetlinkSocketTable(
            (PortRange(9092, 9092),),
            clock=lambda: self.now,
            events=False,
            open_socket=self.kernel.open,
        )

    def read(self, *records: Record):
        self.reads += 1
        self.now += 1.0
        self.kernel.asked.script += dump_of(*records, sequence=self.reads)
        return self.table.read().sockets


@pytest.fixture
def reader():
    return Reader()


AGES = {"last_data_sent": 4000, "last_ack_sent": 8, "last_data_recv": 3000, "last_ack_recv": 2000}


@pytest.mark.parametrize(
    "later",
    [
        pytest.param(Record(info=AGES), id="ages"),
        pytest.param(Record(expires=7_199_000), id="countdown"),
        pytest.param(Record(info={"busy_time": 1 << 40}), id="busy-time"),
        pytest.param(Record(info={"total_rto_time": 900}), id="rto-time"),
    ],
)
def test_clocks_alone_leave_the_reading_as_it_was(reader, later):
    before = reader.read(Record())
    assert reader.read(later) is before
    assert before[0].at == 1.0


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"state": CLOSE_WAIT}, id="state"),
        pytest.param({"timer": 1}, id="timer"),
        pytest.param({"retransmits": 1}, id="retransmits"),
        pytest.param({"receive_queue": 1}, id="receive-queue"),
        pytest.param({"send_queue": 1}, id="send-queue"),
        pytest.param({"inode": 0}, id="inode"),
        pytest.param({"uid": 7}, id="uid"),
        *[
            pytest.param({"info": {name: 1}}, id=name)
            for name in (
                "total_retrans",
                "bytes_acked",
                "bytes_received",
                "segs_out",
                "segs_in",
                "notsent",
                "data_segs_in",
                "data_segs_out",
                "bytes_sent",
            )
        ],
    ],
)
def test_anything_else_makes_a_new_reading(reader, changes):
    quiet = Record(cookie=2)
    (before, same) = reader.read(Record(), quiet)
    (after, still) = reader.read(replace(Record(), **changes), quiet)
    assert after is not before
    assert after.at == 2.0
    assert still is same


MEMORY = (0, 24_694, 0, 16_384, 4096, 0, 0, 0, 0)


def test_of_a_sockets_memory_only_the_receive_buffer_makes_a_new_reading(reader):
    before = reader.read(Record(memory=MEMORY))
    for place in (0, 2, 3, 4, 5, 6, 7, 8):
        other = (*MEMORY[:place], 77_777, *MEMORY[place + 1 :])
        assert reader.read(Record(memory=other)) is before
    (after,) = reader.read(Record(memory=(0, 131_072, *MEMORY[2:])))
    assert (before[0].receive_buffer, after.receive_buffer) == (24_694, 131_072)


def test_changed_reading_has_the_new_figures_and_ages(reader):
    reader.read(Record(info={"bytes_acked": 1, **AGES}))
    (after,) = reader.read(Record(info={"bytes_acked": 101, "last_data_sent": 12}))
    assert after.info.bytes_acked == 101
    assert after.info.last_data_sent_ms == 12


def connections(*cookies, **changes):
    return [Record(cookie=cookie, local_port=40000 + cookie, **changes) for cookie in cookies]


@pytest.mark.parametrize(
    "order",
    [
        pytest.param((0, 1, 2, 3, 4, 5), id="opened-first"),
        pytest.param((1, 2, 9, 3, 4, 5), id="opened-between"),
        pytest.param((1, 2, 3, 4, 5, 9), id="opened-last"),
        pytest.param((1, 3, 4, 5), id="closed-between"),
        pytest.param((2, 3, 4, 5), id="closed-first"),
        pytest.param((1, 2, 3, 4), id="closed-last"),
        pytest.param((9, 1, 3, 8, 4, 5, 7), id="both"),
        pytest.param((5, 4, 3, 2, 1), id="another-order"),
        pytest.param((7, 8, 9), id="all-others"),
        pytest.param((), id="none"),
    ],
)
def test_sockets_that_stay_keep_their_reading_wherever_they_stand(reader, order):
    before = {r.cookie: r for r in reader.read(*connections(1, 2, 3, 4, 5))}
    for _ in range(2):
        after = {r.cookie: r for r in reader.read(*connections(*order))}
        assert set(after) == set(order)
        for cookie in set(order) & set(before):
            assert after[cookie] is before[cookie]


def test_socket_that_changed_while_others_came_and_went_is_new(reader):
    before = {r.cookie: r for r in reader.read(*connections(1, 2, 3))}
    busy = connections(3, info={"bytes_acked": 9})
    after = {r.cookie: r for r in reader.read(*connections(7, 2), *busy)}
    assert after[2] is before[2]
    assert after[3] is not before[3]
    assert (after[3].info.bytes_acked, after[3].local) == (9, before[3].local)


def test_equal_addresses_with_another_cookie_are_another_socket(reader):
    (before,) = reader.read(Record(cookie=1))
    (after,) = reader.read(Record(cookie=2))
    assert after is not before
    assert after.cookie == 2


def test_socket_that_loses_its_figures_and_the_others_around_it(reader):
    before = {r.cookie: r for r in reader.read(*connections(1, 2, 3))}
    bare = connections(2, state=FIN_WAIT2, info_length=None, cgroup_id=None, inode=0)
    first, third = connections(1, 3)
    after = reader.read(first, *bare, third)
    again = reader.read(first, *bare, third)
    by_cookie = {r.cookie: r for r in after}
    assert by_cookie[2].info is None
    assert by_cookie[1] is before[1]
    assert by_cookie[3] is before[3]
    assert again is after


def test_more_sockets_than_one_datagram_holds(reader):
    records = connections(*range(200))
    sequence = 0

    def script(*batches):
        nonlocal sequence
        sequence += 1
        bodies = [b"".join(r.encode(sequence=sequence) for r in batch) for batch in batches]
        reader.kernel.asked.script += [*bodies, done(sequence=sequence)]
        return reader.table.read().sockets

    before = script(records[:80], records[80:160], records[160:])
    # The kernel may cut the same dump elsewhere.
    assert script(records[:75], records[75:150], records[150:]) is before
    busy = replace(records[100], info={"segs_in": 5})
    after = script(records[:80], [*records[80:100], busy, *records[101:160]], records[160:])
    assert [a is b for a, b in zip(after, before, strict=True)].count(False) == 1


def test_another_layout_of_the_same_length_is_not_taken_for_the_first(reader):
    """The bytes that are clocks in one layout are figures in the other."""
    plain = Record(cookie=1, cgroup_id=7, info_length=232)
    longer = Record(cookie=2, cgroup_id=None, info_length=244)
    assert len(plain.encode()) == len(longer.encode())
    first = reader.read(plain, longer)
    for count in range(1, 4):
        busy = replace(longer, info={"bytes_sent": count, "rtt": count})
        after = {r.cookie: r for r in reader.read(plain, busy)}
        assert after[2].info.bytes_sent == count
        assert after[1].cgroup_id == first[0].cgroup_id == 7


def test_flood_of_lengths_does_not_fill_the_memory(reader):
    for extra in range(4, 4 * 200, 4):
        reader.read(Record(info_length=280 + extra))
    assert len(reader.table._reader._caches) <= 66
