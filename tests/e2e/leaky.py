"""A client that keeps the descriptor of a connection that has ended: FOLDER ADDRESS TOPIC.

It speaks Kafka to a real broker, and then makes the mistake that no maintained library makes: the
error of a write is met, and the socket is not closed. Says `connected`; on a line of input it
writes until it is refused, says `reset`, and keeps still until its input ends.
"""

from __future__ import annotations

import ctypes
import sys
import time

from exporter.demo.wire import Wire

# linux/prctl.h
_SET_NAME = 15


def main() -> None:
    ctypes.CDLL(None).prctl(_SET_NAME, b"leaky", 0, 0, 0)
    _folder, address, topic = sys.argv[1:]
    wire = Wire(address, "leaky")
    wire.api_versions()
    wire.metadata(topic)
    print("connected", flush=True)
    sys.stdin.readline()
    try:
        # The first is answered by the reset, the next one meets it.
        while True:
            wire.socket.send(b"\0\0\0\0")
            time.sleep(0.05)
    except OSError:
        print("reset", flush=True)
    sys.stdin.read()
    wire.socket.close()


if __name__ == "__main__":
    main()
