"""Laws of the decoder and of the kernel-side filters."""

from __future__ import annotations

import contextlib
import socket
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.errors import SourceDecodeError, SourceError
from exporter.kernel.destroy_events import DestroyEvents
from exporter.kernel.dump_reader import DumpReader
from tests.unit.sock_diag_records import FakeDiag, Record, done

GOLDEN = Path(__file__).parents[1] / "golden" / "sock_diag"
STATES = [None, "established", "syn_sent", "syn_recv", "fin_wait1", "fin_wait2", "time_wait"]
STATES += ["close", "close_wait", "last_ack", "listen", "closing"]


# ---- a slow decoder, written from the kernel's headers --------------------------------------------


def number(raw, at, width):
    return int.from_bytes(raw[at : at + width], "little") if at + width <= len(raw) else None


def address(family, raw):
    if family == socket.AF_INET:
        return ".".join(str(byte) for byte in raw[:4])
    if raw[:12] == bytes(10) + b"\xff\xff":
        return ".".join(str(byte) for byte in raw[12:])
    return socket.inet_ntop(socket.AF_INET6, raw)


def slow_decode(record):
    """Return what a record says, as plain values."""
    family, state = record[16], record[17]
    info, cgroup_id, at = None, None, 88
    while at < len(record):
        size, kind = number(record, at, 2), number(record, at + 2, 2)
        payload = record[at + 4 : at + size]
        if kind == 2:
            info = payload or None
        elif kind == 21 and len(payload) == 8:
            cgroup_id = number(payload, 0, 8)
        at += (size + 3) // 4 * 4
    figures = None
    if info is not None:
        ages = [number(info, o, 4) for o in (44, 52, 56)] if state != 2 else [None] * 3
        figures = (
            *(number(info, o, 8) for o in (120, 128, 200)),
            *(number(info, o, 4) for o in (136, 140, 156, 152, 100)),
            number(info, 68, 4) or None,
            *ages,
        )
    return (
        number(record, 60, 8),
        (address(family, record[24:40]), int.from_bytes(record[20:22], "big")),
        (address(family, record[40:56]), int.from_bytes(record[22:24], "big")),
        STATES[state],
        number(record, 84, 4),
        number(record, 80, 4),
        cgroup_id,
        number(record, 72, 4),
        number(record, 76, 4),
        record[19],
        figures,
    )


def plain(reading):
    info = reading.info
    figures = None
    if info is not None:
        figures = (
            *(info.bytes_acked, info.bytes_received, info.bytes_sent),
            *(info.segments_out, info.segments_in, info.data_segments_out),
            *(info.data_segments_in, info.retransmits_total, info.rtt_us),
            *(info.last_data_sent_ms, info.last_data_received_ms, info.last_ack_received_ms),
        )
    return (
        reading.cookie,
        (reading.local.address, reading.local.port),
        (reading.remote.address, reading.remote.port),
        reading.tcp_state.value,
        *(reading.inode, reading.uid, reading.cgroup_id),
        *(reading.receive_queue, reading.send_queue, reading.retransmits),
        figures,
    )


# ---- readings of one dump and of several ----------------------------------------------------------

u8, u16, u32 = st.integers(0, 255), st.integers(0, 65535), st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)
figures = st.fixed_dictionaries(
    {},
    optional={
        "last_data_sent": u32,
        "last_data_recv": u32,
        "last_ack_recv": u32,
        "rtt": u32,
        "total_retrans": u32,
        "bytes_acked": u64,
        "bytes_received": u64,
        "segs_out": u32,
        "bytes_sent": u64,
    },
)
addresses = st.one_of(
    st.tuples(st.just(2), st.binary(min_size=4, max_size=4)),
    st.tuples(st.just(10), st.binary(min_size=16, max_size=16)),
    st.tuples(
        st.just(10),
        st.binary(min_size=4, max_size=4).map(lambda raw: bytes(10) + b"\xff\xff" + raw),
    ),
)


@st.composite
def records(draw, cookie=u64):
    family, remote = draw(addresses)
    bare = draw(st.booleans()) and draw(st.booleans())
    return Record(
        cookie=draw(cookie),
        family=family,
        state=draw(st.integers(1, 11)),
        timer=draw(st.integers(0, 4)),
        retransmits=draw(u8),
        local=remote,
        remote=remote,
        local_port=draw(u16),
        remote_port=draw(u16),
        receive_queue=draw(u32),
        send_queue=draw(u32),
        uid=draw(u32),
        inode=draw(u32),
        cgroup_id=None if bare else draw(st.none() | u64),
        info_length=None if bare else draw(st.sampled_from([104, 160, 192, 232, 248, 280, 284])),
        info=draw(figures),
    )


def dump(reader, sequence, datagrams):
    reader.start(sequence, float(sequence))
    for datagram in datagrams:
        reader.buffer[: len(datagram)] = datagram
        if reader.feed(len(datagram)):
            return reader.finish()
    raise AssertionError("the dump has no end")


@given(st.lists(records(), max_size=6))
def test_decoder_equals_a_slow_one(described):
    raw = [record.encode() for record in described]
    found = dump(DumpReader(), 1, [*([b"".join(raw)] if raw else []), done()])
    assert sorted(map(plain, found), key=repr) == sorted(map(slow_decode, raw), key=repr)


changes = st.fixed_dictionaries(
    {},
    optional={
        "state": st.integers(1, 11),
        "timer": st.integers(0, 4),
        "receive_queue": st.integers(0, 3),
        "send_queue": st.integers(0, 3),
        "inode": st.integers(0, 3),
        "expires": u32,
        "info": figures,
        "info_length": st.sampled_from([None, 280, 284]),
    },
)
CLOCKS = {"last_data_sent", "last_data_recv", "last_ack_recv", "rtt"}


def without_clocks(record):
    info = {k: v for k, v in record.info.items() if k not in CLOCKS and v}
    if record.info_length is None:
        info = {}
    return replace(record, expires=0, info=info)


@settings(max_examples=300)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 7), changes), unique_by=lambda pair: pair[0], max_size=8),
        min_size=2,
        max_size=5,
    ),
    st.integers(1, 3),
)
def test_identity_means_that_nothing_happened(polls, per_datagram):
    """Over any sequence of dumps: values are right, and only an unchanged socket keeps its reading.

    Sockets come, go, change places and lengths; only clocks may differ in a kept reading.
    """
    reader = DumpReader()
    before: dict[int, tuple[Record, object]] = {}
    for sequence, poll in enumerate(polls, 1):
        described = [
            replace(Record(cookie=cookie, local_port=cookie, cgroup_id=None), **changed)
            for cookie, changed in poll
        ]
        raw = [record.encode(sequence=sequence) for record in described]
        datagrams = [
            b"".join(raw[at : at + per_datagram]) for at in range(0, len(raw), per_datagram)
        ]
        found = dump(reader, sequence, [*datagrams, done(sequence=sequence)])
        by_cookie = {reading.cookie: reading for reading in found}
        assert len(found) == len(described)
        after = {}
        for record in described:
            reading = by_cookie[record.cookie]
            known = before.get(record.cookie)
            kept = known is not None and reading is known[1]
            if known is not None and without_clocks(known[0]) == without_clocks(record):
                assert kept or known[0].info.get("rtt") != record.info.get("rtt")
            else:
                assert not kept
            # A kept reading still shows the ages of the dump that it was decoded from.
            shown = known[0] if kept else record
            assert plain(reading) == slow_decode(shown.encode())
            after[record.cookie] = (shown, reading)
        before = after


# ---- hostile bytes --------------------------------------------------------------------------------


@given(st.binary(max_size=2000))
def test_any_bytes_are_readings_or_a_source_error(raw):
    reader = DumpReader()
    reader.start(1, 0.0)
    reader.buffer[: len(raw)] = raw
    with contextlib.suppress(SourceError):
        reader.feed(len(raw))
        reader.finish()


def datagrams_of(path):
    framed, at = path.read_bytes(), 0
    while at < len(framed):
        (size,) = struct.unpack_from("<I", framed, at)
        yield framed[at + 4 : at + 4 + size]
        at += 4 + size


FULL = [raw for path in sorted(GOLDEN.glob("*.bin")) for raw in datagrams_of(path) if len(raw) > 99]


@given(
    st.sampled_from(FULL),
    st.lists(st.tuples(st.integers(0, 10**6), u8), min_size=1, max_size=4),
    st.booleans(),
)
def test_recorded_dump_with_bytes_changed_is_decoded_alike_or_refused(raw, flips, known):
    """Also by a reader that has read the whole one before and may take records for known ones."""
    reader = DumpReader()
    if known:
        dump(reader, 7, [raw, done(sequence=7)])
    broken = bytearray(raw)
    for at, value in flips:
        broken[at % len(raw)] = value
    try:
        found = dump(reader, 7, [bytes(broken), done(sequence=7)])
    except SourceError:
        return
    said, at = [], 0
    while at < len(broken):
        length = number(broken, at, 4)
        said.append(slow_decode(bytes(broken[at : at + length])))
        at += (length + 3) // 4 * 4
    without_ages = [(*rest, info and info[:8]) for *rest, info in said]
    got = [(*rest, info and info[:8]) for *rest, info in map(plain, found)]
    assert sorted(got, key=repr) == sorted(without_ages, key=repr)


@pytest.mark.parametrize("raw", [pytest.param(raw, id=str(len(raw))) for raw in FULL])
def test_dump_cut_at_any_byte_is_an_error(raw):
    """But at the border of a message: there the dump only lacks its end, and goes on waiting."""
    borders, at = {0}, 0
    while at < len(raw):
        at += number(raw, at, 4)
        borders.add(at)
    for size in range(1, len(raw)):
        reader = DumpReader()
        reader.start(7, 0.0)
        reader.buffer[:size] = raw[:size]
        if size in borders:
            assert reader.feed(size) is False
            continue
        with pytest.raises(SourceDecodeError):
            reader.feed(size)


@given(st.binary(max_size=600))
def test_any_bytes_are_events_or_a_source_error(raw):
    heard = FakeDiag(groups=5)
    events = DestroyEvents((), open_socket=lambda _groups: heard)
    heard.script.append(raw)
    with contextlib.suppress(SourceError):
        events.drain(0.0)
