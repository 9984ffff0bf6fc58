"""Processes that hold many TCP connections, in a network namespace of their own.

A pair has both its ends in one process: the client's end has the broker's (or a foreign) port as
its remote port, the server's end an ephemeral one. N sockets are N / 2 pairs.
"""

from __future__ import annotations

__all__ = ["BROKER_PORTS", "Holders", "enter_network_namespace"]

import os
import resource
import socket
import subprocess
import sys

BROKER_PORTS = (9092, 9093, 9094)
FOREIGN_PORTS = tuple(range(7000, 7020))
PAIRS_PER_HOLDER = 4500
FILES_PER_HOLDER = 2 * PAIRS_PER_HOLDER + 200
INSIDE = "BROKERWIRE_BENCH_INSIDE"


def enter_network_namespace(module: str, arguments: list[str]) -> None:
    """Run this module again in a network namespace with nothing but loopback; return if inside."""
    if os.environ.get(INSIDE):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    command = ["unshare", "--net", sys.executable, "-m", module, *arguments]
    os.execvpe(command[0], command, os.environ | {INSIDE: "1"})


class Holders:
    """Starts as many processes as `sockets` need, and has them be active on demand."""

    def __init__(self, sockets: int, share: float) -> None:
        self.sockets = sockets
        self.broker_sockets = round(sockets * share)
        pairs = sockets // 2
        if self.broker_sockets > pairs:
            raise SystemExit("only the client's end of a pair can be a broker's: share <= 0.5")
        count = -(-pairs // PAIRS_PER_HOLDER)
        self._processes: list[subprocess.Popen[bytes]] = []
        for index in range(count):
            own_pairs = pairs // count + (index < pairs % count)
            own_brokers = self.broker_sockets // count + (index < self.broker_sockets % count)
            self._processes.append(_start(index, own_pairs, own_brokers))
        for process in self._processes:
            _expect_answer(process)

    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    def touch(self, tenth: int) -> None:
        """Send 100 bytes over every tenth connection to a broker; another tenth each time."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(b"%d\n" % (tenth % 10))
            process.stdin.flush()
        for process in self._processes:
            _expect_answer(process)

    def close(self) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
            process.wait()


def _expect_answer(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    if process.stdout.readline() != b"done\n":
        raise SystemExit("a holder ended early: too few file descriptors or ports?")


def _start(index: int, pairs: int, brokers: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "bench.holders", str(index), str(pairs), str(brokers)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _connect(address: str, port: int, *, mapped: bool) -> socket.socket:
    if mapped:
        client = socket.socket(socket.AF_INET6)
        client.connect((f"::ffff:{address}", port))
        return client
    return socket.create_connection((address, port))


def _hold(index: int, pairs: int, brokers: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, FILES_PER_HOLDER), hard))
    address = f"127.0.{index + 1}.1"
    listeners = {
        port: socket.create_server((address, port), backlog=64)
        for port in BROKER_PORTS + FOREIGN_PORTS
    }
    broker_pairs, foreign_pairs = [], []
    for number in range(pairs):
        ports, kept = (
            (BROKER_PORTS, broker_pairs) if number < brokers else (FOREIGN_PORTS, foreign_pairs)
        )
        port = ports[number % len(ports)]
        # Every second one is what Java opens: AF_INET6 with a mapped address.
        client = _connect(address, port, mapped=number % 2 == 1)
        kept.append((client, listeners[port].accept()[0]))
    print("done", flush=True)
    for line in sys.stdin:
        for client, server in broker_pairs[int(line) :: 10]:
            client.sendall(b"x" * 100)
            server.recv(100)
        print("done", flush=True)


if __name__ == "__main__":
    _hold(*(int(argument) for argument in sys.argv[1:4]))
