"""Real Prometheus and Alertmanager processes, and a webhook that writes down what it is told."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import threading
import time
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import pytest
import yaml

from tests.lab.addresses import free_port
from tests.lab.processes import ManagedProcess, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

REPOSITORY = Path(__file__).parents[2]
# An address of our own: nobody's server is mistaken for ours.
HOST = "127.7.7.7"
START_SECONDS = 60.0


def tool(name: str) -> str:
    """Return the path of a program of Prometheus, or skip; in CI a skip is a failure."""
    cache = Path(os.environ.get("BROKERWIRE_CACHE") or REPOSITORY / ".cache")
    unpacked = cache / "prometheus" / "bin" / name
    found = str(unpacked) if unpacked.exists() else shutil.which(name)
    if found is None:
        reason = f"{name} is missing: run tools/install_prometheus.sh"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


# Debian's Alertmanager insists on templates in this folder, which is not there where it was
# unpacked and not installed. In a copy the folder is the working directory, at equal length.
_TEMPLATES = b"/usr/share/prometheus/alertmanager"
_HERE = b".".ljust(len(_TEMPLATES), b"/")


def alertmanager_program(folder: Path) -> list[str]:
    """Return how to start Alertmanager in a folder of its own."""
    program = Path(tool("alertmanager"))
    if Path(_TEMPLATES.decode()).exists():
        return [str(program)]
    code = program.read_bytes()
    if _TEMPLATES not in code:
        return [str(program)]
    copy = program.with_name("alertmanager-anywhere")
    if not copy.exists():
        partial = copy.with_name(f"{copy.name}.{os.getpid()}")
        partial.write_bytes(re.sub(re.escape(_TEMPLATES) + b"(?!/)", _HERE, code))
        partial.chmod(0o755)
        partial.rename(copy)
    # Notifications to a webhook are JSON and need no template.
    for name in ("default.tmpl", "email.tmpl"):
        (folder / name).write_text("")
    return ["env", "-C", str(folder), str(copy)]


def child(name: str, command: Sequence[str], log: Path, **options: Any) -> ManagedProcess:
    """Start a program that ends with this process, whatever becomes of it."""
    tied = ["setpriv", "--pdeathsig", "KILL", *command] if shutil.which("setpriv") else command
    return ManagedProcess(name, list(tied), log, **options)


def get(url: str, *, timeout: float = 10.0) -> bytes:
    with urllib.request.urlopen(url, timeout=timeout) as answer:
        return answer.read()


def answers(url: str) -> bool:
    with suppress(OSError):
        get(url, timeout=2.0)
        return True
    return False


@dataclass(frozen=True)
class Told:
    """One alert in one notification, and when it came."""

    at: float
    status: str
    alert: dict

    @property
    def name(self) -> str:
        return self.alert["labels"]["alertname"]

    @property
    def labels(self) -> dict[str, str]:
        return self.alert["labels"]


class Webhook:
    """A receiver of notifications."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                now = time.time()
                hook.told += [Told(now, alert["status"], alert) for alert in body["alerts"]]
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._server.server_port}/"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def of(self, name: str, status: str = "firing", /, **labels: str) -> list[Told]:
        return [
            told
            for told in tuple(self.told)
            if told.name == name and told.status == status and labels.items() <= told.labels.items()
        ]

    def wait(
        self, name: str, status: str = "firing", *, seconds: float = 60.0, **labels: str
    ) -> Told:
        """Wait until an alert with these labels was told."""
        wait_until(
            f"{name} {labels} to be {status}; told: {self.summary()}",
            lambda: self.of(name, status, **labels),
            timeout=seconds,
        )
        return self.of(name, status, **labels)[0]

    def summary(self) -> list[tuple[str, str]]:
        return [(told.name, told.status) for told in tuple(self.told)]


class Alertmanager:
    """One Alertmanager that tells one webhook of each alert by itself."""

    def __init__(
        self, folder: Path, webhook: Webhook, *, web: dict | None = None, port: int = 0
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._port = port or free_port(HOST)
        self._scheme = "https" if web else "http"
        (folder / "alertmanager.yml").write_text(
            yaml.safe_dump(
                {
                    "route": {
                        "receiver": "hook",
                        "group_by": ["..."],
                        "group_wait": "0s",
                        "group_interval": "1s",
                        "repeat_interval": "1h",
                    },
                    "receivers": [
                        {
                            "name": "hook",
                            "webhook_configs": [{"url": webhook.url, "send_resolved": True}],
                        }
                    ],
                }
            )
        )
        self._command = [
            *alertmanager_program(folder),
            f"--config.file={folder / 'alertmanager.yml'}",
            f"--storage.path={folder / 'data'}",
            f"--web.listen-address={HOST}:{self._port}",
            "--cluster.listen-address=",
        ]
        if web:
            (folder / "web.yml").write_text(yaml.safe_dump(web))
            self._command.append(f"--web.config.file={folder / 'web.yml'}")
        self._process: ManagedProcess | None = None

    @property
    def url(self) -> str:
        return f"{self._scheme}://{HOST}:{self._port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        self._process = child("alertmanager", self._command, self._folder / "log")
        wait_until("Alertmanager to listen", self._listens, timeout=START_SECONDS)

    def _listens(self) -> bool:
        if self._process is None or not self._process.running:
            raise AssertionError((self._folder / "log").read_text()[-2000:])
        with suppress(OSError), socket.create_connection((HOST, self._port), timeout=2.0):
            return True
        return False

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def alerts(self) -> list[dict]:
        """Return what it holds as active."""
        return json.loads(get(f"{self.url}/api/v2/alerts"))


class Prometheus:
    """One Prometheus that scrapes one agent, and other jobs, and may tell one Alertmanager."""

    def __init__(
        self,
        folder: Path,
        *,
        agent: str,
        rules: Sequence[Path] = (),
        alertmanager: Alertmanager | None = None,
        interval: str = "1s",
        jobs: Sequence[dict] = (),
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        port = free_port(HOST)
        self.url = f"http://{HOST}:{port}"
        (folder / "prometheus.yml").write_text(
            yaml.safe_dump(
                {
                    "global": {"scrape_interval": interval, "evaluation_interval": interval},
                    "rule_files": [str(path) for path in rules],
                    "alerting": {
                        "alertmanagers": [
                            {"static_configs": [{"targets": [each.url.removeprefix("http://")]}]}
                            for each in [alertmanager]
                            if each is not None
                        ]
                    },
                    "scrape_configs": [
                        {
                            "job_name": "brokerwire",
                            "scrape_timeout": interval,
                            "static_configs": [
                                {
                                    "targets": [agent],
                                    "labels": {
                                        "cluster": "lab",
                                        "namespace": "shop",
                                        "pod": "orders-0",
                                    },
                                }
                            ],
                        },
                        *jobs,
                    ],
                }
            )
        )
        self._command = [
            tool("prometheus"),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={HOST}:{port}",
            "--log.level=warn",
            # Alerts go out a second after a look, not a minute.
            "--rules.alert.resend-delay=5s",
        ]
        self._process: ManagedProcess | None = None

    def __enter__(self) -> Self:
        self._process = child("prometheus", self._command, self._folder / "log")
        wait_until(
            "Prometheus to be ready", lambda: answers(f"{self.url}/-/ready"), timeout=START_SECONDS
        )
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()

    def ask(self, path: str) -> Any:
        document = json.loads(get(f"{self.url}/api/v1/{path}"))
        assert document["status"] == "success", document
        return document["data"]

    def query(self, expression: str) -> list:
        return self.ask(f"query?query={quote(expression, safe='')}")["result"]

    def rules(self) -> list[dict]:
        return [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]

    def alerts(self) -> list[dict]:
        """Return alerts that are pending or firing."""
        return self.ask("alerts")["alerts"]


def eventually(what: str, holds: Callable[[], object], seconds: float = 60.0) -> None:
    wait_until(what, holds, timeout=seconds, interval=0.2)
