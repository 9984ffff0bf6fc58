"""`brokerwire demo` shows each sin within seconds, and leaves nothing behind however it ends."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest

from exporter.demo.child import PARTS
from exporter.demo.scene import ROLES
from exporter.demo.show import url_of
from exporter.model import Endpoint

DEMO = [sys.executable, "-c", "from exporter.cli import entry_point; entry_point()", "demo"]
PAGE = re.compile(r"page (http://\S+?)/ ")
START_SECONDS = 30
STOP_SECONDS = 1.0


@contextmanager
def demo(folder, *arguments):
    """A demo with its own folder for temporary files; ended at the end, however the test ends."""
    environment = {**os.environ, "TMPDIR": str(folder), "COLUMNS": "200"}
    process = subprocess.Popen(
        [*DEMO, "--listen", "127.0.0.1:0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def page_of(process):
    """Wait for the first table; return the page's address."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        line = process.stdout.readline()
        if found := PAGE.search(line):
            return found[1]
        if not line:
            break
    raise AssertionError(process.stderr.read())


def family_of(process):
    return psutil.Process(process.pid).children(recursive=True)


def wait_until_gone(processes, seconds):
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    return [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


def document_of(page):
    with urlopen(f"{page}/api/v1/connections") as answer:
        return json.load(answer)


def classes_of(document):
    classes = {}
    for each in document["connections"]:
        classes.setdefault(each["process"], set()).add(each["class"])
    return classes


def until(condition, seconds):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.2)
    return False


def test_every_sin_shows_within_seconds(tmp_path):
    with demo(tmp_path) as process:
        page = page_of(process)
        expected = {
            "legacy-consumer": {"zombie", "data"},
            "stuck-consumer": {"half_closed"},
            "leaky-client": {"ghost"},
            "many-producers": {"excess"},
        }

        def is_complete():
            seen = classes_of(document_of(page))
            return all(classes <= seen.get(name, set()) for name, classes in expected.items())

        assert until(is_complete, 20), classes_of(document_of(page))
        findings = {
            (finding["name"], finding["labels"].get("cause"))
            for finding in document_of(page)["findings"]
        }
        assert until(
            lambda: (
                {"probe", "client per request"}
                <= {each["labels"].get("cause") for each in document_of(page)["findings"]}
            ),
            20,
        ), findings


def test_clients_that_behave_are_not_blamed(tmp_path):
    with demo(tmp_path) as process:
        page = page_of(process)
        good = {"good-producer": {"data"}, "good-consumer": {"data", "coordinator"}}

        def is_exact():
            seen = classes_of(document_of(page))
            return all(seen.get(name) == classes for name, classes in good.items())

        assert until(is_exact, 25), classes_of(document_of(page))
        blamed = {finding["labels"].get("process") for finding in document_of(page)["findings"]}
        assert not blamed & good.keys()


def test_only_the_clients_of_the_demo_are_seen(tmp_path):
    with demo(tmp_path) as process:
        page = page_of(process)
        names = {each["process"] for each in document_of(page)["connections"]}
    assert names <= {part.process for part in ROLES}


def test_it_ends_by_itself_with_a_table_for_a_file(tmp_path):
    with demo(tmp_path, "--for", "8s") as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert err == ""
    assert "\x1b" not in out
    for part in ROLES:
        assert part.process in out
        assert part.what[:40] in out
    assert list(tmp_path.iterdir()) == []


def test_a_connection_has_at_most_twelve_series(tmp_path):
    """What a fleet's Prometheus pays for, once the demo's clients have shown what they do."""
    with demo(tmp_path) as process:
        page = page_of(process)
        last = {"legacy-consumer": "zombie", "leaky-client": "ghost", "many-producers": "excess"}

        def all_have_shown():
            seen = classes_of(document_of(page))
            return all(each in seen.get(name, ()) for name, each in last.items())

        assert until(all_have_shown, 60), classes_of(document_of(page))
        connections = len(document_of(page)["connections"])
        with urlopen(f"{page}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
    series = [line for line in lines if not line.startswith("#")]
    assert len(series) <= 12 * connections


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_within_a_second_and_leaves_nothing(tmp_path, number):
    with demo(tmp_path) as process:
        page_of(process)
        family = family_of(process)
        assert len(family) == len(PARTS)
        began = time.monotonic()
        process.send_signal(number)
        process.communicate(timeout=10)
        assert time.monotonic() - began < STOP_SECONDS
        assert process.returncode == 0
        assert wait_until_gone(family, 0.1) == []
    assert list(tmp_path.iterdir()) == []


def test_a_signal_while_it_starts_ends_it(tmp_path):
    with demo(tmp_path) as process:
        assert until(lambda: family_of(process), 10)
        family = family_of(process)
        began = time.monotonic()
        process.terminate()
        process.communicate(timeout=30)
        assert time.monotonic() - began < STOP_SECONDS
        assert process.returncode == 0
        assert wait_until_gone(family, 0.1) == []


def test_kill_9_takes_the_children_along(tmp_path):
    with demo(tmp_path) as process:
        page_of(process)
        family = family_of(process)
        process.kill()
        process.wait()
        assert wait_until_gone(family, 5) == []
    assert list(tmp_path.iterdir()) == []  # the mock cluster has swept up


def test_a_part_that_dies_is_told_and_the_others_go_on(tmp_path):
    with demo(tmp_path, "--for", "12s") as process:
        page_of(process)
        for child in family_of(process):
            with suppress(psutil.NoSuchProcess):
                if child.name() == "stuck-consumer":
                    child.kill()
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    last = out[out.rindex("CLIENT") :]
    assert re.search(r"stuck-consumer\s+ended by itself", last)


@pytest.mark.parametrize(
    ("listening", "page"),
    [
        pytest.param(("127.7.7.7", 7), "http://127.7.7.7:7", id="one of this machine"),
        pytest.param(("10.1.0.7", 7), "http://10.1.0.7:7", id="one of the network"),
        pytest.param(("::1", 7), "http://[::1]:7", id="one of IPv6"),
        pytest.param(("0.0.0.0", 7), "http://127.0.0.1:7", id="every one of IPv4"),
        pytest.param(("::", 7), "http://127.0.0.1:7", id="every one"),
    ],
)
def test_the_page_is_said_to_be_where_it_listens(listening, page):
    assert url_of(Endpoint(*listening)) == page


def test_a_taken_address_that_was_asked_for_is_exit_code_2():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run(
            [*DEMO, "--for", "5s", "--listen", address],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 2
    assert address in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_no_part_leaves_a_descriptor_of_the_parent_open(tmp_path):
    """A child that held the page's socket would keep its port taken."""
    with demo(tmp_path, "--listen", "127.7.7.7:0") as process:
        page = page_of(process)
        assert page.startswith("http://127.7.7.7:")
        assert document_of(page)["connections"]
        port = int(page.rpartition(":")[2])
        for child in family_of(process):
            listening = [each.laddr.port for each in child.net_connections() if not each.raddr]
            assert port not in listening
            assert not [path for path in child.open_files() if Path(path.path).parent == tmp_path]
