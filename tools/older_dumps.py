"""Make dumps of older kernels from the recorded ones: what their headers do not have is cut out.

    python -m tools.older_dumps tests/golden/sock_diag

Made, not recorded, and labelled so. What they mean is worked out from what the recorder checked,
never by the decoder.
"""

from __future__ import annotations

import json
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exporter.kernel.netlink import HEADER, padded
from tools.record_sock_diag import frame, unframe

if TYPE_CHECKING:
    from collections.abc import Iterator

ATTRIBUTE = struct.Struct("=HH")
# Behind the netlink header and struct inet_diag_msg.
ATTRIBUTES = 16 + 72
RECORD = 18
TCP_INFO, CGROUP_ID, SOCKET_OPTIONS = 2, 21, 22
CASES = ("established-v4", "established-v4-buffers", "established-v6", "close-wait")


@dataclass(frozen=True)
class Kernel:
    """What a kernel's answer has, by its include/uapi/linux/{tcp,inet_diag}.h.

    `info_bytes` is the size of its struct tcp_info: it ends with `tcpi_sndbuf_limited` in 4.14,
    and with `tcpi_snd_wnd` from 5.4 to 6.1. INET_DIAG_CGROUP_ID came with 5.8, INET_DIAG_SOCKOPT
    with 5.10.
    """

    name: str
    info_bytes: int
    lacks: frozenset[int]
    lost: tuple[str, ...] = ()


_NEITHER = frozenset({CGROUP_ID, SOCKET_OPTIONS})
KERNELS = (
    Kernel("4.14", 192, _NEITHER, ("bytes_sent",)),
    Kernel("5.4", 232, _NEITHER),
    Kernel("5.15", 232, frozenset()),
    Kernel("6.1", 232, frozenset()),
)


def _main() -> None:
    if not sys.argv[1:]:
        raise SystemExit(__doc__)
    folder = Path(sys.argv[1])
    for name, content in older_dumps(folder):
        (folder / name).write_bytes(content)


def older_dumps(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Return the files to be made from what is recorded in a folder."""
    for recorded in sorted(folder.glob("*.json")):
        meaning = json.loads(recorded.read_text("utf-8"))
        release, _, case = recorded.stem.partition("-")
        if "made" in meaning or case not in CASES:
            continue
        dump = recorded.with_suffix(".bin").read_bytes()
        for kernel in KERNELS:
            made = b"".join(frame(_older(each, kernel)) for each in unframe(dump))
            yield f"{kernel.name}-{case}.bin", made
            text = json.dumps(_meaning(meaning, kernel, release), indent=1)
            yield f"{kernel.name}-{case}.json", f"{text}\n".encode()


def _older(datagram: bytes, kernel: Kernel) -> bytes:
    made, at = b"", 0
    while at < len(datagram):
        length, kind, *rest = HEADER.unpack_from(datagram, at)
        body = datagram[at + HEADER.size : at + length]
        if kind == RECORD:
            body = _older_record(body, kernel)
        message = HEADER.pack(HEADER.size + len(body), kind, *rest) + body
        made += message.ljust(padded(len(message)), b"\0")
        at += padded(length)
    return made


def _older_record(body: bytes, kernel: Kernel) -> bytes:
    at = ATTRIBUTES - HEADER.size
    made = body[:at]
    while at < len(body):
        size, kind = ATTRIBUTE.unpack_from(body, at)
        payload = body[at + ATTRIBUTE.size : at + size]
        at += padded(size)
        if kind in kernel.lacks:
            continue
        if kind == TCP_INFO:
            payload = payload[: kernel.info_bytes]
        made += ATTRIBUTE.pack(ATTRIBUTE.size + len(payload), kind)
        made += payload.ljust(padded(len(payload)), b"\0")
    return made


def _meaning(recorded: dict[str, Any], kernel: Kernel, release: str) -> dict[str, Any]:
    sockets = []
    for each in recorded["sockets"]:
        lost = {"cgroup_id": None} if CGROUP_ID in kernel.lacks else {}
        info = each["info"] | dict.fromkeys(kernel.lost)
        sockets.append(each | lost | {"info": info})
    made = f"by tools/older_dumps.py from {release}: struct tcp_info has {kernel.info_bytes} bytes"
    if kernel.lacks:
        made += f", no attributes {', '.join(map(str, sorted(kernel.lacks)))}"
    label = {
        "kernel": kernel.name,
        "made": made,
        "command": "python -m tools.older_dumps tests/golden/sock_diag",
    }
    return recorded | label | {"sockets": sockets}


if __name__ == "__main__":
    _main()
