"""Users, rate and headers of the web config file, and secrets that must show nowhere."""

from __future__ import annotations

import base64
import logging
import statistics
import threading
import time

import bcrypt
import pytest

from exporter.http import security
from tests.integration.web_support import ask, connected, put, serving

PASSWORD = "c4n4ry-P4SSWORD"
COST = 8


def hashed(password: str, cost: int = COST) -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(cost)).decode()


HASH = hashed(PASSWORD)


def login(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


GOOD = login("alice", PASSWORD)


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "web.yml"
    put(file, f"basic_auth_users:\n  alice: {HASH}\n")
    return file


def guarded(path, *args, **options):
    return serving(None, *args, web={"config_file": str(path)}, **options)


@pytest.mark.parametrize("target", ["/", "/metrics", "/api/v1/connections", "/nothing"])
def test_nothing_is_shown_without_a_password(path, target):
    with guarded(path) as server:
        status, headers, body = ask(server, "GET", target)
        assert (status, headers["WWW-Authenticate"]) == (
            401,
            'Basic realm="brokerwire", charset="UTF-8"',
        )
        assert b"kafka" not in body
        assert ask(server, "GET", target, headers=GOOD)[0] in (200, 404)


@pytest.mark.parametrize("target", ["/-/healthy", "/-/ready"])
def test_a_kubelet_needs_no_password(path, target):
    with guarded(path) as server:
        assert ask(server, "GET", target)[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param(login("alice", "wrong"), id="password"),
        pytest.param(login("alice", ""), id="no password"),
        pytest.param(login("bob", PASSWORD), id="user"),
        pytest.param(login("", PASSWORD), id="no user"),
        pytest.param(login("alice", HASH), id="the hash itself"),
        pytest.param({"Authorization": f"Bearer {PASSWORD}"}, id="bearer"),
        pytest.param({"Authorization": "Basic %%%"}, id="no base64"),
    ],
)
def test_what_is_wrong_is_refused(path, headers):
    with guarded(path) as server:
        assert ask(server, "GET", "/metrics", headers=headers)[0] == 401


def test_a_body_is_not_read_from_who_may_not_send_it(path):
    taken = []
    with guarded(path, lambda *each: taken.append(each)) as server:
        assert ask(server, "POST", "/api/v1/statistics", b"{}")[0] == 401
        assert ask(server, "POST", "/api/v1/statistics", b"{}", GOOD)[0] == 202
    assert len(taken) == 1


def test_a_new_password_is_the_one_that_counts(path, monkeypatch):
    monkeypatch.setattr(security, "_CHECK_SECONDS", 0.0)
    with guarded(path) as server:
        assert ask(server, "GET", "/metrics", headers=GOOD)[0] == 200
        put(path, f"basic_auth_users:\n  alice: {hashed('other')}\n")
        assert ask(server, "GET", "/metrics", headers=GOOD)[0] == 401
        assert ask(server, "GET", "/metrics", headers=login("alice", "other"))[0] == 200


@pytest.mark.parametrize("text", ["", "basic_auth_users:\n", "basic_auth_users:\n  alice: x\n"])
def test_a_file_that_lets_everybody_in_does_not_take_the_place_of_one_that_does_not(
    path, monkeypatch, text
):
    monkeypatch.setattr(security, "_CHECK_SECONDS", 0.0)
    with guarded(path) as server:
        put(path, text)
        assert ask(server, "GET", "/metrics")[0] == 401
        assert ask(server, "GET", "/metrics", headers=GOOD)[0] == 200


def test_guesses_do_not_hold_up_a_scrape(path):
    with guarded(path) as server:
        assert ask(server, "GET", "/metrics", headers=GOOD)[0] == 200
        guesses = [
            threading.Thread(target=ask, args=(server, "GET", "/", None, login("alice", str(n))))
            for n in range(20)
        ]
        for guess in guesses:
            guess.start()
        begun = time.monotonic()
        assert ask(server, "GET", "/metrics", headers=GOOD)[0] == 200
        assert time.monotonic() - begun < 0.5
        for guess in guesses:
            guess.join()


def test_time_does_not_tell_who_exists(path):
    """Asked in turns, so that a busy machine is as slow for both; unchecked it would be 1 to 10."""
    times = {"alice": [], "nobody": []}
    with guarded(path) as server, connected(server) as client:
        for number in range(15):
            for user, found in times.items():
                begun = time.perf_counter()
                client.request("GET", "/", headers=login(user, f"wrong{number}"))
                client.getresponse().read()
                found.append(time.perf_counter() - begun)
    known, unknown = map(statistics.median, times.values())
    assert 1 / 3 < known / unknown < 3


def test_secrets_show_nowhere(path, caplog):
    caplog.set_level(logging.DEBUG)
    answers = []
    with guarded(path) as server:
        for headers in (GOOD, login("alice", PASSWORD + "x"), login(PASSWORD, "x")):
            for target in ("/", "/metrics", "/api/v1/sources", f"/{PASSWORD}"):
                _, sent, body = ask(server, "GET", target, headers=headers)
                answers.append(str(sent).encode() + body)
    shown = b"".join(answers) + caplog.text.encode()
    assert PASSWORD.encode() not in shown
    assert HASH.encode() not in shown


def test_requests_beyond_the_rate_are_told_to_wait(tmp_path):
    path = tmp_path / "web.yml"
    put(path, "rate_limit:\n  interval: 200ms\n  burst: 3\n")
    with guarded(path) as server:
        statuses = [ask(server, "GET", "/metrics")[0] for _ in range(6)]
        assert statuses[:3] == [200] * 3
        assert 429 in statuses[3:]
        assert ask(server, "GET", "/-/healthy")[0] == 200
        time.sleep(0.5)
        assert ask(server, "GET", "/metrics")[0] == 200


def test_headers_of_the_file_are_sent(tmp_path):
    path = tmp_path / "web.yml"
    text = "Strict-Transport-Security: max-age=1\n    X-Frame-Options: SAMEORIGIN\n"
    put(path, f"http_server_config:\n  headers:\n    {text}")
    with guarded(path) as server:
        _, headers, _ = ask(server, "GET", "/metrics")
    assert headers["Strict-Transport-Security"] == "max-age=1"
    assert headers.get_all("X-Frame-Options") == ["SAMEORIGIN"]
