"""What a push meets at the other end: it fails in one line, in time."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest

from spark_rollups.errors import PushError
from spark_rollups.report.push import push


@contextlib.contextmanager
def answering(*parts, pause=0.0):
    """Answer the first connection with these parts; give its URL."""

    def answer():
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(65536)
            for part in parts:
                connection.sendall(part)
                time.sleep(pause)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def refusal(*parts, pause=0.0, seconds=5.0):
    with answering(*parts, pause=pause) as url, pytest.raises(PushError) as told:
        push("a 1\n", url, seconds=seconds)
    return str(told.value)


def test_an_answer_that_is_not_ours_drives_no_terminal():
    told = refusal(b"HTTP/1.1 400 Bad\r\nContent-Length: 20\r\n\r\n\x1b]0;title\x07\r\nline two")
    assert "answered 400" in told
    assert told.isprintable()


def test_a_body_that_breaks_off_is_no_traceback():
    told = refusal(b"HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
    assert told.endswith("answered 500: Oops")


def test_a_hostile_status_line_is_shown_as_text():
    told = refusal(b"\x1b[2Jnot http\r\n\r\n")
    assert told.isprintable()
    assert "cannot push to" in told


def test_an_answer_that_drips_has_one_deadline_for_all_of_it():
    begun = time.monotonic()
    told = refusal(*[b"H"] * 100, pause=0.1, seconds=0.5)
    assert "did not answer in full within 0.5 s" in told
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize("url", ["http://[", "http://a:b", f"http://{'x' * 70}.example"])
def test_a_url_that_leads_nowhere_is_no_traceback(url):
    with pytest.raises(PushError, match="cannot push to"):
        push("a 1\n", url, seconds=5.0)
