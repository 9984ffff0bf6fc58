"""Many connections that are silent, drip or never read: a process of its own, as attackers are.

`python -m tests.integration.web_crowd PORT SILENT DRIPPING DEAF`, until standard input ends.
"""

from __future__ import annotations

import contextlib
import select
import socket
import sys
import time

REQUEST = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"


class Crowd:
    """Whoever is cut off comes back."""

    def __init__(self, port: int) -> None:
        self._place = ("127.0.0.1", port)
        self._open: dict[socket.socket, str] = {}
        self.connects = 0

    def join(self, kind: str) -> None:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(2)
        self.connects += 1
        try:
            sock.connect(self._place)
            if kind == "deaf":
                sock.send(REQUEST)
        except OSError:
            sock.close()
            return
        sock.setblocking(False)
        self._open[sock] = kind

    def go_round(self) -> None:
        for sock, kind in list(self._open.items()):
            if kind == "dripping":
                with contextlib.suppress(OSError):
                    sock.send(b"G")
            if kind != "deaf" and self._is_cut_off(sock):
                sock.close()
                del self._open[sock]
                self.join(kind)

    @staticmethod
    def _is_cut_off(sock: socket.socket) -> bool:
        try:
            return sock.recv(4096) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True


def main(port: int, silent: int, dripping: int, deaf: int) -> None:
    crowd = Crowd(port)
    for kind, count in (("silent", silent), ("dripping", dripping), ("deaf", deaf)):
        for _ in range(count):
            crowd.join(kind)
    ending = time.monotonic() + 120  # however it is left behind
    while time.monotonic() < ending and not select.select([sys.stdin], [], [], 0.1)[0]:
        crowd.go_round()
    print(crowd.connects)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
