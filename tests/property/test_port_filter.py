"""Laws of the filters that the kernel runs for us."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from exporter.config.settings import PortRange
from exporter.kernel.port_filter import FilterKind, diag_bytecode, event_program
from tests.unit.sock_diag_records import Record

addresses = st.one_of(
    st.tuples(st.just(2), st.binary(min_size=4, max_size=4)),
    st.tuples(st.just(10), st.binary(min_size=16, max_size=16)),
    st.tuples(
        st.just(10),
        st.binary(min_size=4, max_size=4).map(lambda raw: bytes(10) + b"\xff\xff" + raw),
    ),
)


ports = st.integers(1, 65535)
ranges = st.lists(
    st.tuples(ports, ports).map(lambda pair: PortRange(min(pair), max(pair))),
    min_size=1,
    max_size=8,
)


def run_bytecode(program, port):
    """Do as inet_diag_bc_run does."""
    at = 0
    while at < len(program):
        code, yes, no = struct.unpack_from("=BBH", program, at)
        value = struct.unpack_from("=H", program, at + 6)[0] if code != 1 else None
        taken = {1: False, 4: port >= (value or 0), 5: port <= (value or 0), 12: port == value}[
            code
        ]
        at += yes if taken else no
    return at == len(program)


def audit_bytecode(program):
    """Check what inet_diag_bc_audit checks: every jump leads to an operation, the end, or past it."""
    starts, at = set(), 0
    while at < len(program):
        starts.add(at)
        at += program[at + 1]
    starts |= {len(program), len(program) + 4}
    for start in starts - {len(program), len(program) + 4}:
        code, yes, no = struct.unpack_from("=BBH", program, start)
        assert start + no in starts
        assert yes == (4 if code == 1 else 8)
    assert at == len(program)


@given(ranges, st.integers(0, 65535), st.sampled_from([FilterKind.EQUAL, FilterKind.RANGES]))
def test_bytecode_lets_exactly_the_ports_pass(allowed, port, kind):
    program = diag_bytecode(allowed, kind)
    audit_bytecode(program)
    assert run_bytecode(program, port) == any(port in each for each in allowed)


def run_bpf(program, packet):
    """Do as the kernel's classic BPF does."""
    accumulator, at = 0, 0
    while True:
        code, if_true, if_false, value = struct.unpack_from("=HBBI", program, 8 * at)
        at += 1
        if code == 0x06:
            return value
        if code in (0x20, 0x28):
            width = 4 if code == 0x20 else 2
            accumulator = int.from_bytes(packet[value : value + width], "big")
        else:
            test = {
                0x15: accumulator == value,
                0x35: accumulator >= value,
                0x25: accumulator > value,
            }
            at += if_true if test[code] else if_false


@given(ranges, st.integers(0, 65535), addresses)
def test_event_filter_lets_the_ports_pass_and_lost_ports_of_an_address(allowed, port, where):
    family, remote = where
    packet = Record(remote_port=port, family=family, remote=remote).encode()
    passed = run_bpf(event_program(allowed), packet) != 0
    lost = port == 0 and any(remote)
    assert passed == (lost or any(port in each for each in allowed))
