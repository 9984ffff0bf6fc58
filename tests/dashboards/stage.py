"""What the dashboards are shown in the tests: the demo, and an agent that watches real faults.

Every fault is real: the kernel's sockets are in that state, and the agent finds out by itself.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Self

import yaml

from spark_rollups.report.openmetrics import render
from tests.e2e.monitoring import HOST, Prometheus, child, tool
from tests.integration.web_support import issue
from tests.lab.addresses import free_port
from tests.lab.processes import wait_until
from tests.lab.repeating import repeating
from tests.unit.digests import digest

if TYPE_CHECKING:
    from collections.abc import Iterator

BROKERWIRE = Path(sys.executable).with_name("brokerwire")
SHOP = {"cluster": "lab", "namespace": "shop", "pod": "orders-0"}
FAULTY = {"cluster": "lab", "namespace": "faults", "pod": "faults-0"}
_DEMO_PAGE = re.compile(r"page http://(\S+?)/ ")
_START_SECONDS = 40.0


class Faults:
    """A process, this one, whose connections fail in every way that a socket can."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._stop = threading.Event()
        self.closed = free_port(HOST)

    def __enter__(self) -> Self:
        keep = self._stack.enter_context
        mute = keep(socket.create_server((HOST, 0)))
        full = keep(socket.create_server((HOST, 0), backlog=0))
        dropping = keep(socket.create_server((HOST, 0)))
        self.ports = [each.getsockname()[1] for each in (mute, full, dropping)] + [self.closed]
        asking = keep(socket.create_connection(mute.getsockname()))
        # The listener's queue is full: the kernel drops what comes then, and it is tried again.
        for _ in range(4):
            trying = keep(socket.socket())
            trying.setblocking(False)
            with suppress(BlockingIOError):
                trying.connect(full.getsockname())
        for work in (self._fail, lambda: self._ask(asking), lambda: self._drop(dropping)):
            thread = threading.Thread(target=work, daemon=True)
            thread.start()
            self._stack.callback(thread.join, 10)
        self._stack.callback(self._stop.set)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _fail(self) -> None:
        while not self._stop.wait(0.5):
            with suppress(ConnectionRefusedError):
                socket.create_connection((HOST, self.closed), timeout=5).close()

    def _ask(self, connection: socket.socket) -> None:
        """Let requests go out, and nothing come back."""
        while not self._stop.wait(0.5):
            connection.sendall(b"x" * 64)

    def _drop(self, listener: socket.socket) -> None:
        """Let a broker end a connection that has said something."""
        while not self._stop.wait(0.5):
            with socket.create_connection(listener.getsockname(), timeout=5) as client:
                accepted, _ = listener.accept()
                client.sendall(b"x" * 64)
                accepted.recv(64)
                accepted.close()
                client.recv(1)


@contextmanager
def demo(folder: Path) -> Iterator[str]:
    """Run `brokerwire demo` and give the address of its agent."""
    log = folder / "demo.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [BROKERWIRE, "demo", "--listen", "127.0.0.1:0"],
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(folder), "COLUMNS": "200"},
        )
    try:
        yield wait_until(
            "the demo to show its page",
            lambda: next(iter(_DEMO_PAGE.findall(log.read_text())), None),
            timeout=_START_SECONDS,
        )
    finally:
        process.terminate()
        process.wait(15)


@contextmanager
def watcher(folder: Path, faults: Faults) -> Iterator[str]:
    """Run an agent with all that can be configured, some of it wrong, and give its address."""
    issue("server").write(folder, "server")
    (folder / "web.yaml").write_text(
        "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n"
    )
    (folder / "rules.yaml").write_text(
        yaml.safe_dump(
            {
                "alerts": [
                    {"name": "KafkaClientBrokerUnreachable", "fire_after": "1s"},
                ]
            }
        )
    )
    address = f"{HOST}:{free_port(HOST)}"
    (folder / "agent.yaml").write_text(
        yaml.safe_dump(
            {
                "poll": {"interval": "500ms"},
                "brokers": {
                    "ports": faults.ports,
                    "max_connections": 10,
                    "max_connections_per_ip": 5,
                },
                "sources": {
                    "java": [
                        {
                            "name": "gone",
                            "url": f"http://{HOST}:{faults.closed}/metrics",
                            "interval": "1s",
                        }
                    ]
                },
                "alertmanager": {
                    "targets": [{"url": f"http://{HOST}:{faults.closed}"}],
                    "interval": "1s",
                    "rules_file": str(folder / "rules.yaml"),
                },
                "journal": {
                    "interval": "1s",
                    "file": {"path": str(folder / "journal.jsonl")},
                    "kafka": {
                        "bootstrap_servers": f"{HOST}:{faults.closed}",
                        "spool_folder": str(folder / "spool"),
                    },
                },
                "web": {
                    "listen_addresses": [address],
                    "config_file": str(folder / "web.yaml"),
                },
            }
        )
    )
    process = child(
        "watcher",
        [str(BROKERWIRE), "run", "--config", str(folder / "agent.yaml")],
        folder / "watcher.log",
    )
    try:
        yield address
    finally:
        process.terminate(timeout=10)


@contextmanager
def crowd(address: str) -> Iterator[None]:
    """Say to a server again and again what is no HTTP: it turns such connections away."""
    host, _, port = address.rpartition(":")

    def say() -> None:
        with suppress(OSError), socket.create_connection((host, int(port)), 5) as connection:
            connection.sendall(b"this is no HTTP\r\n\r\n")
            connection.recv(1024)

    with repeating(say, interval=0.5):
        yield


FLEET = render(digest())


@contextmanager
def rollups() -> Iterator[str]:
    """Serve what the rollups write for node_exporter or a Pushgateway, and give the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/openmetrics-text; version=1.0.0")
            self.end_headers()
            self.wfile.write(FLEET.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer((HOST, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"{HOST}:{server.server_port}"
        server.shutdown()
        thread.join(5)


def write_last_week(folder: Path) -> None:
    """Put the same figures into Prometheus's storage as of twenty minutes a week ago."""
    middle = int(time.time()) - 7 * 86400
    lines = []
    for line in FLEET.splitlines():
        if line.startswith("#"):
            lines.append(line)
        else:
            lines += [f"{line} {middle + offset}" for offset in range(-600, 600, 60)]
    (folder / "last_week").write_text("\n".join(lines) + "\n")
    subprocess.run(
        [
            *(tool("promtool"), "tsdb", "create-blocks-from", "openmetrics"),
            *(folder / "last_week", folder / "prometheus" / "data"),
        ],
        check=True,
        capture_output=True,
    )


@contextmanager
def everything(folder: Path) -> Iterator[Prometheus]:
    """Scrape all of it each second, and hand out the Prometheus."""
    with ExitStack() as stack:
        enter = stack.enter_context
        shop = enter(demo(folder))
        faulty = enter(watcher(folder, enter(Faults())))
        enter(crowd(shop))
        jobs = [
            {
                "job_name": "faults",
                "scheme": "https",
                "tls_config": {"insecure_skip_verify": True},
                "static_configs": [{"targets": [faulty], "labels": FAULTY}],
            },
            {
                "job_name": "rollups",
                "honor_labels": True,
                "static_configs": [{"targets": [enter(rollups())]}],
            },
        ]
        write_last_week(folder)
        yield enter(Prometheus(folder / "prometheus", agent=shop, jobs=jobs))
