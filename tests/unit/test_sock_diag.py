"""What a record of the dump means."""

from __future__ import annotations

import dataclasses
import json
import struct
from pathlib import Path

import pytest

from exporter.config.settings import PortRange
from exporter.kernel.dump_reader import DumpReader
from exporter.kernel.port_filter import FilterKind
from exporter.kernel.sock_diag import NetlinkSocketTable, dump_request
from exporter.model import Endpoint, ReadMethod, SocketReading, TcpInfo, TcpState
from tests.unit.sock_diag_records import (
    AF_INET6,
    FIN_WAIT2,
    MAPPED,
    NOOP,
    REMOTE,
    SYN_SENT,
    FakeKernel,
    Record,
    done,
    dump_of,
    message,
)
from tools.older_dumps import KERNELS, older_dumps
from tools.record_sock_diag import document_of

GOLDEN = Path(__file__).parents[1] / "golden" / "sock_diag"
PORTS = (PortRange(9092, 9092), PortRange(19092, 19094))


@pytest.fixture
def kernel():
    return FakeKernel()


@pytest.fixture
def table(kernel):
    return NetlinkSocketTable(
        PORTS, clock=lambda: 50.0, events=False, open_socket=kernel.open, sleep=kernel.nap
    )


def read(table, kernel, *records, sequence=1):
    kernel.asked.script += dump_of(*records, sequence=sequence)
    return table.read().sockets


def test_the_countdown_is_the_keepalive_timers_where_that_one_runs(table, kernel):
    records = [
        Record(cookie=1, timer=2, expires=7_100_000),
        Record(cookie=2, timer=1, expires=200),
        Record(cookie=3),
    ]
    told = {each.cookie: each.keepalive_left_ms for each in read(table, kernel, *records)}
    assert told == {1: 7_100_000, 2: None, 3: None}


def test_what_the_timers_begin_with_is_read_from_the_kernel_or_not_known(kernel, tmp_path):
    path = tmp_path / "tcp_keepalive_time"
    for text, known in (("7200\n", 7_200_000), ("soon\n", None), (None, None)):
        path.write_text(text) if text is not None else path.unlink()
        table = NetlinkSocketTable(
            PORTS, events=False, open_socket=kernel.open, keepalive_file=str(path)
        )
        kernel.asked.script += dump_of(Record(), sequence=1)
        assert table.read().keepalive_ms == known


# ---- golden dumps -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", [pytest.param(path, id=path.stem) for path in sorted(GOLDEN.glob("*.bin"))]
)
def test_recorded_dump_means_what_the_recorder_checked(path):
    expected = json.loads(path.with_suffix(".json").read_text())
    reader = DumpReader()
    reader.start(expected["sequence"], expected["at"])
    finished = [feed(reader, datagram) for datagram in datagrams_of(path)]
    assert [document_of(reading) for reading in reader.finish()] == expected["sockets"]
    assert finished == [False] * (len(finished) - 1) + [True]


def test_dumps_of_older_kernels_are_made_from_the_recorded_ones():
    made = dict(older_dumps(GOLDEN))
    assert {name.partition("-")[0] for name in made} == {kernel.name for kernel in KERNELS}
    assert {name: (GOLDEN / name).read_bytes() for name in made} == made
    for name in made:
        assert "made" in json.loads((GOLDEN / name).with_suffix(".json").read_text())


def test_what_an_older_kernel_lacks_is_unknown():
    (told,) = json.loads((GOLDEN / "4.14-established-v4.json").read_text())["sockets"]
    assert (told["cgroup_id"], told["info"]["bytes_sent"]) == (None, None)
    assert told["info"]["bytes_acked"] == 1001


def datagrams_of(path):
    framed, at = path.read_bytes(), 0
    while at < len(framed):
        (size,) = struct.unpack_from("<I", framed, at)
        yield framed[at + 4 : at + 4 + size]
        at += 4 + size


def feed(reader, datagram):
    reader.buffer[: len(datagram)] = datagram
    return reader.feed(len(datagram))


# ---- decoding -----------------------------------------------------------------------------------


def test_reading_carries_everything_the_kernel_says(table, kernel):
    record = Record(
        cookie=0x1_0000_0002,
        retransmits=3,
        receive_queue=7,
        send_queue=9,
        info={
            "last_data_sent": 10,
            "last_data_recv": 20,
            "last_ack_recv": 30,
            "rtt": 250,
            "total_retrans": 4,
            "bytes_acked": 1001,
            "bytes_received": 500,
            "segs_out": 11,
            "segs_in": 12,
            "data_segs_in": 13,
            "data_segs_out": 14,
            "bytes_sent": 1000,
        },
    )
    expected = SocketReading(
        at=50.0,
        cookie=0x1_0000_0002,
        local=Endpoint("10.0.0.1", 40000),
        remote=Endpoint("10.0.0.2", 9092),
        tcp_state=TcpState.ESTABLISHED,
        inode=5000,
        uid=1000,
        cgroup_id=77,
        receive_queue=7,
        send_queue=9,
        retransmits=3,
        info=TcpInfo(
            bytes_acked=1001,
            bytes_received=500,
            bytes_sent=1000,
            segments_out=11,
            segments_in=12,
            data_segments_out=14,
            data_segments_in=13,
            retransmits_total=4,
            rtt_us=250,
            last_data_sent_ms=10,
            last_data_received_ms=20,
            last_ack_received_ms=30,
        ),
        is_ipv6=False,
    )
    assert read(table, kernel, record) == (expected,)


def test_readings_are_as_frozen_and_complete_as_any_other(table, kernel):
    """The decoder fills them in a way of its own."""
    (reading,) = read(table, kernel, Record())
    assert type(reading) is SocketReading
    assert type(reading.info) is TcpInfo
    assert hash(reading) == hash(dataclasses.replace(reading))
    with pytest.raises(dataclasses.FrozenInstanceError):
        reading.inode = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        reading.info.rtt_us = 1


@pytest.mark.parametrize(
    ("family", "remote", "expected"),
    [
        pytest.param(2, REMOTE, "10.0.0.2", id="ipv4"),
        pytest.param(AF_INET6, MAPPED + REMOTE, "10.0.0.2", id="mapped"),
        pytest.param(AF_INET6, bytes(15) + b"\1", "::1", id="ipv6"),
    ],
)
def test_mapped_address_is_the_ipv4_one(table, kernel, family, remote, expected):
    (reading,) = read(table, kernel, Record(family=family, remote=remote))
    assert reading.remote == Endpoint(expected, 9092)


def test_ages_of_a_connection_that_is_not_yet_open_are_left_out(table, kernel):
    ages = {"last_data_sent": 4612248, "last_data_recv": 4612248, "last_ack_recv": 4612248}
    (reading,) = read(table, kernel, Record(state=SYN_SENT, send_queue=1, info=ages))
    assert reading.tcp_state is TcpState.SYN_SENT
    info = reading.info
    assert (info.last_data_sent_ms, info.last_data_received_ms) == (None, None)
    assert (info.last_ack_received_ms, info.rtt_us) == (None, None)


def test_receive_buffers_are_told_only_where_they_are_asked_for(kernel, table):
    asking = NetlinkSocketTable(PORTS, events=False, buffers=True, open_socket=kernel.open)
    (told,) = read(asking, kernel, Record(memory=(0, 24_694, *[0] * 7)))
    assert told.receive_buffer == 24_694
    (untold,) = read(asking, kernel, Record(), sequence=2)
    assert untold.receive_buffer is None
    extensions = [bytes(dump_request(PORTS, FilterKind.EQUAL, buffers=b))[19] for b in (0, 1)]
    assert extensions == [1 << 1, 1 << 1 | 1 << 6]
    assert kernel.asked.sent[0][19] == extensions[1]
    table.close()


def test_record_without_attributes_has_no_figures(table, kernel):
    bare = Record(state=FIN_WAIT2, info_length=None, cgroup_id=None, inode=0, uid=0)
    (reading,) = read(table, kernel, bare)
    assert (reading.tcp_state, reading.info, reading.cgroup_id) == (TcpState.FIN_WAIT2, None, None)


@pytest.mark.parametrize(
    ("length", "absent"),
    [
        # 104: before Linux 3.15; 136: 4.1; 160: 4.6; 192: 4.10; 232: 5.4
        pytest.param(
            104, {"bytes_acked", "bytes_received", "segments_out", "bytes_sent"}, id="104"
        ),
        pytest.param(136, {"segments_out", "segments_in", "bytes_sent"}, id="136"),
        pytest.param(160, {"bytes_sent"}, id="160"),
        pytest.param(192, {"bytes_sent"}, id="192"),
        pytest.param(232, set(), id="232"),
    ],
)
def test_what_an_older_kernel_lacks_is_none_not_zero(table, kernel, length, absent):
    (reading,) = read(table, kernel, Record(info_length=length, info={"rtt": 5}))
    lacking = {name for name, value in dataclasses.asdict(reading.info).items() if value is None}
    assert absent <= lacking
    assert reading.info.rtt_us == 5
    assert reading.info.retransmits_total == 0


def test_records_of_several_lengths_in_one_datagram_are_all_read(table, kernel):
    bare = Record(cookie=2, state=FIN_WAIT2, info_length=None, cgroup_id=None)
    found = read(table, kernel, Record(cookie=1), bare, Record(cookie=3), Record(cookie=4))
    assert {reading.cookie for reading in found} == {1, 2, 3, 4}


def test_dump_of_several_datagrams_with_the_end_in_the_last(table, kernel):
    kernel.asked.script += [
        Record(cookie=1).encode() + message(NOOP, b""),
        Record(cookie=2).encode() + done(),
    ]
    assert [reading.cookie for reading in table.read().sockets] == [1, 2]


def test_empty_table_is_an_empty_reading(table, kernel):
    kernel.asked.script += dump_of()
    reading = table.read()
    assert reading.sockets == ()
    assert (reading.method, reading.events_complete) == (ReadMethod.SOCK_DIAG, False)
