"""Clients of another host, which a network namespace stands for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tests.integration.web_support import Agent, port_of, serving

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("ip") is None, reason="needs root and iproute2"
    ),
]
HERE, THERE = "10.233.77.1", "10.233.77.2"
NAME = f"bw{os.getpid()}"

POST = """
import http.client, sys
client = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=5)
for method, path, body in (("GET", "/metrics", None), ("POST", "/api/v1/statistics", b"{}")):
    client.request(method, path, body=body)
    response = client.getresponse()
    response.read()
    print(response.status)
    client.close()
"""
MANY = """
import http.client, socket, sys, time
place = (sys.argv[1], int(sys.argv[2]))
held = [socket.create_connection(place, timeout=5) for _ in range(4)]
for sock in held:
    sock.sendall(b"POST /api/v1/statistics HTTP/1.1\\r\\nHost: a\\r\\nContent-Length: 9\\r\\n")
time.sleep(0.3)
late = socket.create_connection(place, timeout=5)
late.sendall(b"GET /-/ready HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
print(late.recv(12).decode())
print(sum(sock.send(b"X: y\\r\\n") > 0 for sock in held[1:]))
"""


def run(*command: str) -> str:
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30)
    return done.stdout


@pytest.fixture(scope="module")
def namespace():
    try:
        run("ip", "netns", "add", NAME)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespaces here: {error.stderr}")
    try:
        run("ip", "link", "add", f"{NAME}a", "type", "veth", "peer", f"{NAME}b", "netns", NAME)
        run("ip", "addr", "add", f"{HERE}/24", "dev", f"{NAME}a")
        run("ip", "link", "set", f"{NAME}a", "up")
        run("ip", "-n", NAME, "addr", "add", f"{THERE}/24", "dev", f"{NAME}b")
        run("ip", "-n", NAME, "link", "set", f"{NAME}b", "up")
        yield NAME
    finally:
        run("ip", "netns", "delete", NAME)


def there(namespace: str, code: str, server) -> list[str]:
    command = ("ip", "netns", "exec", namespace, sys.executable, "-c", code)
    return run(*command, HERE, str(port_of(server))).split("\n")


def test_another_host_may_read_but_not_post(namespace):
    taken = []
    places = {"listen_addresses": (f"{HERE}:0",)}
    with serving(Agent(), lambda *each: taken.append(each), web=places) as server:
        assert there(namespace, POST, server)[:2] == ["200", "403"]
    assert taken == []


def test_one_other_host_has_four_places_and_the_oldest_makes_room(namespace):
    with serving(Agent(), web={"listen_addresses": (f"{HERE}:0",)}) as server:
        first, *_ = there(namespace, MANY, server)
        assert first == "HTTP/1.1 200"
        assert server._server.rejected["evicted"] == 1
        assert server._server.connections <= 5
