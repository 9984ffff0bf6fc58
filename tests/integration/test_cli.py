"""The command as a user starts it: processes, signals, ports, pipes, and a real agent's answer."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from exporter.web.document import connections_document, encode
from tests.lab.addresses import free_port
from tests.unit.snapshots import page_sample

BROKERWIRE = [sys.executable, "-c", "from exporter.cli import entry_point; entry_point()"]
STOP_SECONDS = 1.0


def brokerwire(*arguments, **options):
    return subprocess.run(
        [*BROKERWIRE, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **options,
    )


@contextmanager
def running(*arguments):
    """`brokerwire run`, once it listens; its port is the last argument's."""
    process = subprocess.Popen(
        [*BROKERWIRE, "run", "--web.listen-address", "127.0.0.1:0", *arguments],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        for line in process.stderr:
            if "event=started" in line:
                break
            if found := re.search(r"event=listening .*port=(\d+)", line):
                process.port = int(found[1])
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


@contextmanager
def connections(count):
    """Connections of this process to a port where something listens and says nothing."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = listener.getsockname()[1]
        for _ in range(count):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            stack.enter_context(listener.accept()[0])
        yield port


@contextmanager
def answering(body, path="/api/v1/connections", status=200):
    """An agent that always says the same."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status if self.path == path else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_run_within_a_second(number):
    with running() as process:
        began = time.monotonic()
        process.send_signal(number)
        assert process.wait(10) == 0
        assert time.monotonic() - began < STOP_SECONDS
        assert process.stdout.read() == ""


def test_a_signal_ends_run_while_somebody_keeps_it_busy():
    with running() as process, ExitStack() as stack:
        for _ in range(30):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", process.port)))
            sock.sendall(b"GET /metrics HTTP/1.1\r\n")
        began = time.monotonic()
        process.terminate()
        assert process.wait(10) == 0
        assert time.monotonic() - began < STOP_SECONDS


def test_a_taken_port_is_one_line_and_exit_code_2():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        began = time.monotonic()
        done = brokerwire("run", "--web.listen-address", address)
        assert time.monotonic() - began < 5
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert address in line
    assert "another program listens there" in line


def findings_of(port):
    from urllib.request import urlopen

    with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        return set(re.findall(r'brokerwire_findings{finding="(\w+)"', answer.read().decode()))


@pytest.mark.parametrize(("allowed", "near"), [(3, True), (4, False)])
def test_findings_keep_to_the_thresholds_of_the_rules_file(tmp_path, allowed, near):
    """The agent knows no limit of its own: the operator's alone makes the finding."""
    rules, config = tmp_path / "rules.yaml", tmp_path / "brokerwire.yaml"
    rules.write_text(f"thresholds: {{max_connections: {allowed}}}")
    with connections(3) as broker:
        config.write_text(
            f"brokers: {{ports: [{broker}]}}\n"
            "alertmanager:\n"
            f"  rules_file: {rules}\n"
            "  targets: [{url: http://127.0.0.1:9}]\n"
        )
        with running("--config", str(config)) as process:
            found = set()
            deadline = time.monotonic() + (10 if near else 4)
            while not found and time.monotonic() < deadline:
                found = findings_of(process.port)
                time.sleep(0.2)
    assert ("KafkaClientBrokerNearMaxConnections" in found) is near


def test_run_serves_metrics_and_the_api():
    from urllib.request import urlopen

    with running() as process:
        base = f"http://127.0.0.1:{process.port}"
        with urlopen(f"{base}/metrics") as answer:
            assert b"brokerwire_build_info" in answer.read()
        with urlopen(f"{base}/api/v1/connections") as answer:
            assert json.load(answer)["schema_version"] == 1
        done = brokerwire("inspect", "--agent", base, "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["schema_version"] == 1


def test_inspect_sees_the_connections_of_a_process():
    with connections(3) as port:
        arguments = ["--ports", str(port), "--pid", str(os.getpid()), "--for", "500ms"]
        table = brokerwire("inspect", *arguments, "--each")
        document = json.loads(brokerwire("inspect", *arguments, "--json").stdout)
        assert brokerwire("inspect", *arguments, "--ports", str(port)).returncode == 0
    assert table.returncode == 0, table.stderr
    assert table.stdout.count(f"127.0.0.1:{port}") == 1
    assert "3 connections" in table.stdout
    assert {os.getpid()} == {each["pid"] for each in document["connections"]}
    assert len(document["connections"]) == 3


def test_check_answers_by_its_exit_code():
    with connections(2) as port:
        arguments = ["check", "--ports", str(port), "--pid", str(os.getpid()), "--for", "300ms"]
        passed = brokerwire(*arguments, "--max", "connections=2")
        crossed = brokerwire(*arguments, "--max", "connections=1", "--json")
    assert passed.returncode == 0, passed.stderr
    assert passed.stdout == "ok   connections: 2 (max 2)\nok   connections: 2 (min 1)\n"
    assert crossed.returncode == 4
    assert json.loads(crossed.stdout)["passed"] is False


def test_a_check_that_saw_nothing_has_an_exit_code_of_its_own():
    arguments = ["check", "--ports", str(free_port()), "--for", "100ms"]
    nothing = brokerwire(*arguments)
    told = brokerwire(*arguments, "--allow-empty")
    assert nothing.returncode == 5, nothing.stderr
    assert "FAIL connections: 0 (min 1)" in nothing.stdout
    assert "--allow-empty" in nothing.stderr
    assert told.returncode == 0, told.stderr


def test_explain_tells_of_one_connection():
    with connections(1) as port:
        arguments = ["--ports", str(port), "--for", "300ms"]
        done = brokerwire("explain", f"127.0.0.1:{port}", *arguments)
        nobody = brokerwire("explain", "nobody", *arguments)
    assert done.returncode == 0, done.stderr
    for word in ("owner:", "class:", "evidence:", "closes:", "recommendation:"):
        assert word in done.stdout
    assert nobody.returncode == 5
    assert "no connection of or to 'nobody'" in nobody.stderr


def test_explain_asks_an_agent():
    body = encode(connections_document(page_sample()))
    with answering(body) as url:
        done = brokerwire("explain", "orders-producer", "--agent", url)
        path = brokerwire("inspect", "--agent", f"{url}/api/v1/connections", "--json")
    assert done.returncode == 0, done.stderr
    assert "zombie" in done.stdout
    assert path.stdout.encode() == body


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b"null", b"\xff", b"[" * 100_000, b'{"summary": {}, "connections": [1]}'],
    ids=range(7),
)
def test_something_else_than_an_agent_is_exit_code_3(body):
    with answering(body) as url:
        done = brokerwire("inspect", "--agent", url)
    assert done.returncode == 3, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_an_agent_whose_snapshot_is_old_is_not_believed():
    body = encode(connections_document(page_sample(), stale=True))
    with answering(body) as url:
        done = brokerwire("check", "--agent", url)
    assert done.returncode == 3
    assert "too old" in done.stderr


def test_an_agent_that_is_not_there_is_exit_code_3():
    done = brokerwire("inspect", "--agent", f"http://127.0.0.1:{free_port()}")
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1


def test_a_reader_that_has_seen_enough_changes_no_verdict():
    """`brokerwire check | head -0` in a gate must still fail."""
    body = encode(connections_document(page_sample()))
    with answering(body) as url:
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run(
            [*BROKERWIRE, "check", "--agent", url],
            stdout=write,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
        os.close(write)
    assert done.returncode == 4
    assert done.stderr == b""


@pytest.mark.parametrize("no_color", [False, True])
def test_colours_are_for_terminals_and_nobody_who_says_no(no_color):
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "150"}
    environment.pop("NO_COLOR", None)
    if no_color:
        environment["NO_COLOR"] = "1"
    body = encode(connections_document(page_sample()))
    with answering(body) as url:
        piped = brokerwire("inspect", "--agent", url, env=environment)
        shown = on_terminal("inspect", "--agent", url, env=environment)
    assert "\x1b" not in piped.stdout
    assert ("\x1b[1;31m" in shown) is not no_color


def on_terminal(*arguments, env):
    """What a terminal gets."""
    main, side = os.openpty()
    with subprocess.Popen([*BROKERWIRE, *arguments], stdout=side, env=env) as process:
        os.close(side)
        shown = bytearray()
        try:
            while part := os.read(main, 65536):
                shown += part
        except OSError:  # the other side is closed
            pass
        process.wait(60)
    os.close(main)
    return shown.decode()


@contextmanager
def top(url, columns=80):
    """`brokerwire top` on a terminal of its own, and what it has shown so far."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    process = subprocess.Popen(
        [*BROKERWIRE, "top", "--agent", url],
        stdin=side,
        stdout=side,
        stderr=side,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(side)
    try:
        yield process, main
    finally:
        process.kill()
        process.wait()
        os.close(main)


def shown_until(main, words, seconds=20):
    """Read a terminal until it shows some words."""
    seen, until = "", time.monotonic() + seconds
    while words not in seen:
        ready, _, _ = select.select([main], [], [], until - time.monotonic())
        assert ready, f"{words!r} is not shown: {seen[-2000:]}"
        seen += os.read(main, 65536).decode(errors="replace")
    return seen


def test_top_follows_keys():
    with answering(encode(connections_document(page_sample()))) as url, top(url) as (process, main):
        shown_until(main, "12 connections")
        os.write(main, b"j")
        os.write(main, b"\r")
        shown_until(main, "half closed")
        os.write(main, b"/billing-con\r")
        shown_until(main, "/billing-con")
        os.write(main, b"\x1bb")
        os.write(main, b"b")
        shown_until(main, "BROKER")
        os.write(main, b"q")
        shown_until(main, "\x1b[?1049l")
        assert process.wait(5) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_top_ends_when_it_is_told(number):
    with answering(encode(connections_document(page_sample()))) as url, top(url) as (process, main):
        shown_until(main, "12 connections")
        process.send_signal(number)
        shown_until(main, "\x1b[?1049l")
        assert process.wait(5) == 0


def test_top_into_a_pipe_is_one_look():
    with answering(encode(connections_document(page_sample()))) as url:
        done = brokerwire("top", "--agent", url, stdin=subprocess.DEVNULL)
    assert done.returncode == 0
    assert "Recommendations" in done.stdout
    assert "\x1b" not in done.stdout
