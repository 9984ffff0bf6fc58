"""Filters that run in the kernel: the remote ports of dumped sockets and of events."""

from __future__ import annotations

__all__ = ["FilterKind", "diag_bytecode", "event_program"]

import struct
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from exporter.config.settings import PortRange

# linux/inet_diag.h
_BC_JMP = 1
_BC_D_GE = 4
_BC_D_LE = 5
_BC_D_EQ = 12
_OP = struct.Struct("=BBH")
_OP_BYTES = _OP.size
_COMPARE_BYTES = 2 * _OP_BYTES

# linux/filter.h
_BPF_LOAD_WORD = 0x20
_BPF_LOAD_HALF = 0x28
_BPF_JUMP_EQUAL = 0x15
_BPF_JUMP_GREATER_OR_EQUAL = 0x35
_BPF_JUMP_GREATER = 0x25
_BPF_RETURN = 0x06
_BPF = struct.Struct("=HBBI")
# Behind the netlink header: family, state, timer, retransmits, source port.
_EVENT_REMOTE_PORT = 16 + 4 + 2
_EVENT_REMOTE_ADDRESS = 16 + 4 + 4 + 16
_ADDRESS_WORDS = 4
_WHOLE_MESSAGE = 0xFFFFFFFF


class FilterKind(Enum):
    """How much of a port filter the kernel understands; older ones know less."""

    EQUAL = "equal"
    RANGES = "ranges"
    NONE = "none"


def diag_bytecode(ports: Sequence[PortRange], kind: FilterKind) -> bytes:
    """Return inet_diag bytecode that lets sockets pass whose remote port is one of `ports`.

    A yes-branch goes on to the next operation and ends in a jump to the end (accepted); the last
    no-branch points four bytes past the end, which is inet_diag's way to say no.
    """
    if kind is FilterKind.NONE:
        return b""
    tests = [_comparisons(ports_range, kind) for ports_range in ports]
    total = sum(len(test) * _COMPARE_BYTES + _OP_BYTES for test in tests) - _OP_BYTES
    program = bytearray()
    for test in tests:
        size = len(test) * _COMPARE_BYTES + _OP_BYTES
        for position, (operation, port) in enumerate(test):
            to_next_test = size - position * _COMPARE_BYTES
            program += _OP.pack(operation, _COMPARE_BYTES, to_next_test) + _OP.pack(0, 0, port)
        if len(program) < total:
            program += _OP.pack(_BC_JMP, _OP_BYTES, total - len(program))
    return bytes(program)


def _comparisons(ports: PortRange, kind: FilterKind) -> list[tuple[int, int]]:
    if kind is FilterKind.EQUAL and ports.first == ports.last:
        return [(_BC_D_EQ, ports.first)]
    return [(_BC_D_GE, ports.first), (_BC_D_LE, ports.last)]


def event_program(ports: Iterable[PortRange]) -> bytes:
    """Return a classic BPF program that lets destroy events of `ports` pass, and lost ports.

    The kernel has forgotten the remote port, but not the address, of a connection that was refused
    or aborted. With no address either, it was a listener or never went anywhere.
    """
    accept = _BPF.pack(_BPF_RETURN, 0, 0, _WHOLE_MESSAGE)
    reject = _BPF.pack(_BPF_RETURN, 0, 0, 0)
    addressed = []
    for word in range(_ADDRESS_WORDS):
        addressed += [
            _BPF.pack(_BPF_LOAD_WORD, 0, 0, _EVENT_REMOTE_ADDRESS + 4 * word),
            _BPF.pack(_BPF_JUMP_EQUAL, 1, 0, 0),
            accept,
        ]
    program = [
        _BPF.pack(_BPF_LOAD_HALF, 0, 0, _EVENT_REMOTE_PORT),
        _BPF.pack(_BPF_JUMP_EQUAL, 0, len(addressed) + 1, 0),
        *addressed,
        reject,
    ]
    for allowed in ports:
        program += [
            _BPF.pack(_BPF_JUMP_GREATER_OR_EQUAL, 0, 2, allowed.first),
            _BPF.pack(_BPF_JUMP_GREATER, 1, 0, allowed.last),
            accept,
        ]
    program.append(reject)
    return b"".join(program)
