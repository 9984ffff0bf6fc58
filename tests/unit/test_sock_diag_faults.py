"""No failure is a short list, and a kernel that knows less is asked for less."""

from __future__ import annotations

import errno
import struct

import pytest

from exporter.config.settings import PortRange
from exporter.errors import SourceDecodeError, SourceError, SourceUnavailableError
from exporter.kernel.sock_diag import NetlinkSocketTable
from tests.unit.sock_diag_records import (
    CLOSE_WAIT,
    DUMP_INTR,
    FakeKernel,
    Record,
    done,
    dump_of,
    message,
    refusal,
)

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


# ---- failures -----------------------------------------------------------------------------------

GOOD = Record().encode()


@pytest.mark.parametrize(
    ("script", "error", "says"),
    [
        pytest.param([GOOD, done(2)], SourceUnavailableError, "ENOENT", id="errno-in-done"),
        pytest.param([refusal(1)], SourceUnavailableError, "EPERM", id="refused"),
        pytest.param([refusal(93)], SourceUnavailableError, "EPROTONOSUPPORT", id="no-protocol"),
        pytest.param([refusal(0)], SourceDecodeError, "acknowledged", id="acknowledged"),
        pytest.param([message(2, b"\1")], SourceDecodeError, "error of 17 bytes", id="error-cut"),
        pytest.param([OSError(105, "x")], SourceUnavailableError, "ENOBUFS", id="no-memory"),
        pytest.param([GOOD], SourceUnavailableError, "within 5 s", id="silent-before-the-end"),
        pytest.param([GOOD[:-4], done()], SourceDecodeError, "claims", id="cut-record"),
        pytest.param([GOOD + b"\0\0", done()], SourceDecodeError, "header", id="odd-bytes"),
        pytest.param([bytes(16)], SourceDecodeError, "claims 0", id="no-length"),
        pytest.param([b""], SourceDecodeError, "header", id="empty-datagram"),
        pytest.param([GOOD * 100], SourceDecodeError, "was cut to", id="larger-than-the-buffer"),
        pytest.param([done() + GOOD], SourceDecodeError, "after the end", id="after-the-end"),
        pytest.param([message(99, b"")], SourceDecodeError, "type 99", id="foreign-type"),
        pytest.param([Record().encode(sequence=9)], SourceDecodeError, "request 9", id="stale"),
        pytest.param([done(sequence=9)], SourceDecodeError, "request 9", id="stale-end"),
        pytest.param(
            [Record().encode(flags=DUMP_INTR), done()],
            SourceUnavailableError,
            "DUMP_INTR",
            id="interrupted",
        ),
        pytest.param(
            [GOOD, done(flags=DUMP_INTR)],
            SourceUnavailableError,
            "DUMP_INTR",
            id="interrupted-end",
        ),
        pytest.param(
            [Record(state=12).encode()], SourceDecodeError, "state 12", id="unknown-state"
        ),
        pytest.param(
            [Record(family=5).encode()], SourceDecodeError, "family 5", id="unknown-family"
        ),
        pytest.param([message(18, bytes(40))], SourceDecodeError, "56 bytes", id="short-record"),
        pytest.param(
            [message(18, bytes(72) + b"\xff\0\2\0")],
            SourceDecodeError,
            "claims 255",
            id="attribute",
        ),
    ],
)
def test_no_failure_is_a_short_list(table, kernel, script, error, says):
    kernel.asked.script += script
    with pytest.raises(error, match=says):
        table.read()


def test_error_keeps_its_cause_and_names_a_remedy(table, kernel):
    kernel.asked.script += [done(2)]
    with pytest.raises(SourceUnavailableError, match="load the kernel modules") as caught:
        table.read()
    assert caught.value.__cause__.errno == errno.ENOENT


def test_after_an_error_the_rest_of_the_answer_cannot_be_mistaken_for_the_next(table, kernel):
    broken = kernel.asked
    broken.script += [GOOD + b"\0\0", GOOD, done()]
    with pytest.raises(SourceError):
        table.read()
    assert broken.closed
    kernel.upcoming.append(dump_of(Record(cookie=5), sequence=2))
    assert [reading.cookie for reading in table.read().sockets] == [5]


def test_error_in_between_does_not_cost_the_identity_of_readings(table, kernel):
    records = Record(cookie=1), Record(cookie=2)
    before = read(table, kernel, *records)
    kernel.asked.script += [Record(cookie=1).encode(sequence=2), done(1, sequence=2)]
    with pytest.raises(SourceError):
        table.read()
    kernel.upcoming.append(dump_of(*records, sequence=3))
    assert table.read().sockets is before


def test_netlink_that_is_refused_says_so():
    def refuse(groups):
        del groups
        raise SourceUnavailableError("cannot open a netlink socket")

    with pytest.raises(SourceUnavailableError, match="netlink"):
        NetlinkSocketTable(PORTS, open_socket=refuse)


# ---- the filter ---------------------------------------------------------------------------------


def test_kernel_that_knows_no_equal_is_asked_with_ranges_from_then_on(table, kernel):
    kernel.asked.script += [refusal(22), *dump_of(Record(), sequence=2)]
    assert len(table.read().sockets) == 1
    first, second = kernel.asked.sent
    assert first[16 + 60 :] != second[16 + 60 :]
    read(table, kernel, Record(), sequence=3)
    assert kernel.asked.sent[2][16 + 60 :] == second[16 + 60 :]


def test_where_the_kernel_knows_no_filter_ports_are_matched_here(table, kernel):
    others = [Record(cookie=2, remote_port=443), Record(cookie=3, remote_port=19093)]
    kernel.asked.script += [
        refusal(22),
        refusal(22, sequence=2),
        *dump_of(Record(), *others, sequence=3),
    ]
    assert [reading.cookie for reading in table.read().sockets] == [1, 3]
    assert len(kernel.asked.sent[2]) == 16 + 60


def test_kernel_that_refuses_even_that_is_an_error(table, kernel):
    kernel.asked.script += [refusal(22, sequence=n) for n in (1, 2, 3)]
    with pytest.raises(SourceUnavailableError, match="EINVAL"):
        table.read()


def test_request_asks_for_connections_with_tcp_info_and_no_time_wait(table, kernel):
    read(table, kernel)
    (request,) = kernel.asked.sent
    length, kind, flags, sequence, _ = struct.unpack_from("=IHHII", request)
    assert (length, kind, flags, sequence) == (len(request), 18, 0x301, 1)
    assert request[16 + 3] == 1 << 1
    (states,) = struct.unpack_from("=I", request, 16 + 52)
    assert not states & (1 << 6 | 1 << 10 | 1)
    assert states & 1 << CLOSE_WAIT


def test_ports_can_be_changed(table, kernel):
    read(table, kernel)
    table.set_ports((PortRange(7, 7),))
    read(table, kernel, sequence=2)
    before, after = kernel.asked.sent
    assert before[16:] != after[16:]


def test_sequence_number_starts_again_after_the_last(table, kernel):
    table._sequence = 0xFFFFFFFF
    assert read(table, kernel, Record(), sequence=1)
