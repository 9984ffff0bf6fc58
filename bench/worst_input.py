"""How much memory does the agent take at most, when others send it the worst that it lets in?

    python -m bench.worst_input --sockets 5000 --seconds 20

A whole agent with default limits, a socket table of that many connections to one broker's port, and
at the same time: the largest statistics by HTTP and by Unix socket, the largest page of a Java
client, as many readers of API, page and metrics as it serves, half of them too slow. `ulimit -n`
must allow for the sockets. The figure is the greatest resident memory (VmHWM), in MiB.
"""

from __future__ import annotations

__all__ = ["main", "peak_mib"]

import argparse
import contextlib
import http.server
import multiprocessing
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.integration.test_input_memory import PAGES, STATISTICS
from tests.lab.addresses import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

HOST = "127.0.0.1"
PATHS = ("/api/v1/connections", "/", "/metrics", "/api/v1/findings")
POST = "/api/v1/statistics"
READERS = 64
CONFIG = """
brokers: {{ports: [{broker}]}}
sources:
  java: [{{name: page, url: "http://{host}:{page}/", interval: 1s}}]
  librdkafka: {{unix_socket: {folder}/statistics.sock}}
"""


def hold_sockets(count: int, port: int, ready: Connection) -> None:
    """Be a broker and its clients: connections that stay; a process of its own, with its files."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    held = []
    with socket.create_server((HOST, port), backlog=1024) as server:
        for number in range(count):
            # 20,000 of each address: the ports of one would not do.
            source = (f"127.0.1.{1 + number // 20_000}", 0)
            held.append(socket.create_connection((HOST, port), source_address=source))
            held.append(server.accept()[0])
        ready.send(len(held))
        ready.recv()


def serve_page(port: int) -> None:
    """Be a Java client with the largest page."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = PAGES["Prometheus nodes"]
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    http.server.HTTPServer((HOST, port), Page).serve_forever()


def post(port: int) -> None:
    """Post the worst documents, one after the other."""
    while True:
        for body in STATISTICS.values():
            head = f"POST {POST} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n"
            with contextlib.suppress(OSError), socket.create_connection((HOST, port), 5) as sock:
                sock.sendall(head.encode() + body)
                sock.recv(4096)


def send(path: str) -> None:
    """Write the worst documents to the Unix socket."""
    while True:
        for body in STATISTICS.values():
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(10)
                sock.connect(path)
                sock.sendall(body.replace(b"\n", b" ") + b"\n")


def read(port: int, number: int) -> None:
    """Ask again and again; half of the readers take a little and wait until they are cut off."""
    request = f"GET {PATHS[number % len(PATHS)]} HTTP/1.1\r\nHost: a\r\n\r\n".encode()
    while True:
        with contextlib.suppress(OSError), socket.socket() as sock:
            sock.settimeout(10)
            if number % 2:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.connect((HOST, port))
            sock.sendall(request)
            if number % 2:
                sock.recv(1024)
                time.sleep(8)
            else:
                while sock.recv(1 << 20):
                    pass


def read_all(port: int) -> None:
    """Be all readers."""
    for number in range(READERS):
        threading.Thread(target=read, args=(port, number), daemon=True).start()
    threading.Event().wait()


@contextlib.contextmanager
def beside(target: Any, *arguments: Any) -> Iterator[None]:
    """Run a function in a process of its own."""
    process = multiprocessing.get_context("spawn").Process(
        target=target, args=arguments, daemon=True
    )
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def peak_mib(pid: int) -> float:
    """Return the greatest resident memory of a process so far."""
    text = Path(f"/proc/{pid}/status").read_text("utf-8")
    [line] = [each for each in text.splitlines() if each.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024


def measure(sockets: int, seconds: float, kinds: set[str]) -> float:
    """Return the greatest memory of an agent that all of it happens to."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        broker, page, web = (free_port(HOST) for _ in range(3))
        ready, theirs = multiprocessing.get_context("spawn").Pipe()
        stack.enter_context(beside(hold_sockets, sockets, broker, theirs))
        ready.recv()
        if "page" in kinds:
            stack.enter_context(beside(serve_page, page))
        config = Path(folder) / "brokerwire.yaml"
        config.write_text(CONFIG.format(broker=broker, page=page, host=HOST, folder=folder))
        agent = stack.enter_context(
            subprocess.Popen(
                [
                    *(
                        str(Path(sys.executable).with_name("brokerwire")),
                        "run",
                        "--config",
                        str(config),
                    ),
                    *("--web.listen-address", f"{HOST}:{web}"),
                ],
                stderr=subprocess.DEVNULL,
            )
        )
        stack.callback(agent.terminate)
        time.sleep(3)
        if "post" in kinds:
            stack.enter_context(beside(post, web))
        if "socket" in kinds:
            stack.enter_context(beside(send, f"{folder}/statistics.sock"))
        if "readers" in kinds:
            stack.enter_context(beside(read_all, web))
        time.sleep(seconds)
        return peak_mib(agent.pid)


KINDS = ("page", "post", "socket", "readers")


def main() -> None:
    """Print each kind alone, then all of them together."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sockets", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--kinds", nargs="*", choices=(*KINDS, "none", "all"))
    arguments = parser.parse_args()
    for kind in arguments.kinds or ("none", *KINDS, "all"):
        kinds = set(KINDS) if kind == "all" else {kind}
        found = measure(arguments.sockets, arguments.seconds, kinds)
        print(f"| {kind} | {arguments.sockets:,} | {found:.1f} |", flush=True)


if __name__ == "__main__":
    main()
