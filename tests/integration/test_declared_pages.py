"""A process that declares its metrics page: read where it listens itself, else never asked."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporter.agent import Agent
from exporter.clients.pod_annotations import NAMES
from exporter.config.settings import (
    BrokerSettings,
    JavaSourceSettings,
    PollSettings,
    PortRange,
    Settings,
    SourceSettings,
)
from exporter.web.document import sources_document
from exporter.web.page_sections import sources_section
from tests.lab.addresses import free_port

PAGE = Path(__file__).parents[1] / "golden" / "metrics" / "jmx-1-plain-4.4.0.prom"
# Called java, connected to a broker, and serving a page where it was told to.
JVM = """
import ctypes, http.server, socket, sys
ctypes.CDLL(None).prctl(15, b"java", 0, 0, 0)
broker, port, page = sys.argv[1:4]
held = socket.create_connection(("127.0.0.1", int(broker)))

class Web(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(open(page, "rb").read())

    def log_message(self, *_):
        pass

server = http.server.HTTPServer(("127.0.0.1", int(port)), Web)
print("ready", flush=True)
server.serve_forever()
"""


@pytest.fixture
def broker():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@contextmanager
def jvm(broker, listens_on, declares=None):
    option = f"-javaagent:/jmx/jmx_prometheus_javaagent.jar=127.0.0.1:{declares}:/rules.yaml"
    command = [sys.executable, "-c", JVM, str(broker), str(listens_on), str(PAGE)]
    command += [] if declares is None else [option]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()


def settings(broker, **sources):
    return Settings(
        poll=PollSettings(interval=0.1),
        brokers=BrokerSettings(ports=(PortRange(broker, broker),)),
        sources=SourceSettings(**sources),
    )


def sources_of(agent, wanted, *, seconds=20.0):
    """Wait until the agent's sources are as wanted; return them."""
    deadline = time.monotonic() + seconds
    while True:
        found = sources_document(agent.snapshot())["sources"]
        if wanted(found) or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def test_a_page_that_its_process_serves_is_read_without_configuration(broker):
    port = free_port("127.0.0.1")
    with jvm(broker, port, port) as process, Agent(settings(broker)) as agent:
        [source] = sources_of(agent, bool)
        page = str(sources_section([source]))
        assert (source["name"], source["up"], source["clients"] > 0) == (
            f"jmx_exporter:{port}",
            True,
            True,
        )
        why = f"-javaagent option in the command line of java (pid {process.pid})"
        assert source["found_by"] == why
        assert why in page
        json.dumps(source)
        process.kill()
        process.wait()
        assert sources_of(agent, lambda found: not found) == []


def test_a_page_that_another_process_serves_is_never_asked(broker):
    """A process may write what it likes on its command line."""
    with socket.create_server(("127.0.0.1", 0)) as victim:
        victim.settimeout(3)
        declared = victim.getsockname()[1]
        with jvm(broker, free_port("127.0.0.1"), declared), Agent(settings(broker)) as agent:
            with pytest.raises(TimeoutError):
                victim.accept()
            assert agent.snapshot().connections
            assert sources_document(agent.snapshot())["sources"] == []


@pytest.mark.parametrize("how", ["switched off", "a page is configured"])
def test_a_declared_page_is_left_alone(broker, how, tmp_path):
    port, other = free_port("127.0.0.1"), free_port("127.0.0.1")
    configured = JavaSourceSettings(name="orders", url=f"http://127.0.0.1:{other}/metrics")
    chosen = {"discover": False} if how == "switched off" else {"java": (configured,)}
    chosen["pod_annotations"] = annotated(tmp_path, port)
    with jvm(broker, port, port), Agent(settings(broker, **chosen)) as agent:
        time.sleep(2)
        assert agent.snapshot().connections
        names = [each["name"] for each in sources_document(agent.snapshot())["sources"]]
    assert names == ([] if how == "switched off" else ["orders"])


def annotated(folder, port):
    for name in NAMES:
        (folder / name).write_text(str(port) if name == "port" else "")
    return str(folder)


def test_the_page_that_a_pod_s_annotations_name_is_read(broker, tmp_path):
    port = free_port("127.0.0.1")
    folder = annotated(tmp_path, port)
    with jvm(broker, port), Agent(settings(broker, pod_annotations=folder)) as agent:
        [source] = sources_of(agent, bool)
        assert (source["name"], source["up"], source["clients"] > 0) == (
            f"annotation:{port}",
            True,
            True,
        )
        assert source["found_by"] == f"pod annotation prometheus.io/port {port}"
        assert source["found_by"] in str(sources_section([source]))


def test_a_page_that_a_process_declares_is_read_in_its_place(broker, tmp_path):
    port = free_port("127.0.0.1")
    folder = annotated(tmp_path, port)
    with jvm(broker, port, port), Agent(settings(broker, pod_annotations=folder)) as agent:
        found = sources_of(
            agent, lambda found: [each["name"] for each in found] == [f"jmx_exporter:{port}"]
        )
        assert [each["name"] for each in found] == [f"jmx_exporter:{port}"]
