"""A file of librdkafka's statistics that is appended to, rotated, truncated and replaced."""

from __future__ import annotations

import json
import os

import pytest

from exporter.clients.statistics_file import StatisticsFile


def document(number, **more):
    return json.dumps({"name": f"n{number}", "client_id": "c", "ts": number, "brokers": {}, **more})


class Followed:
    """A file that is polled by hand."""

    def __init__(self, path, **options):
        self.path = path
        self.readings = []
        self.errors = []
        self.follower = StatisticsFile(
            str(path), self.readings.append, self.errors.append, **options
        )

    def begin(self):
        self.follower.poll(from_the_start=False)
        return self

    def poll(self):
        """Return the names of the clients that came since the last time."""
        self.readings.clear()
        self.follower.poll()
        return [reading.clients[0].instance for reading in self.readings]

    def append(self, text):
        with self.path.open("a") as file:
            file.write(text)


@pytest.fixture
def followed(tmp_path):
    path = tmp_path / "statistics"
    path.write_text(document(0) + "\n")
    return Followed(path).begin()


def test_what_stood_there_before_is_passed_over(followed):
    assert followed.poll() == []
    followed.append(document(1) + "\n")
    assert followed.poll() == ["n1"]
    assert followed.poll() == []


def test_the_line_that_was_being_written_is_passed_over(tmp_path):
    path = tmp_path / "statistics"
    path.write_text(document(0)[:20])
    followed = Followed(path).begin()
    followed.append(document(0)[20:] + "\n" + document(1) + "\n")
    assert followed.poll() == ["n1"]
    assert followed.errors == []


def test_a_file_that_comes_later_is_read_from_its_start(tmp_path):
    followed = Followed(tmp_path / "statistics").begin()
    assert [str(error)[:13] for error in followed.errors] == ["cannot follow"]
    followed.append(document(1) + "\n" + document(2) + "\n")
    assert followed.poll() == ["n1", "n2"]


def test_a_reading_names_the_file_and_no_sender(followed):
    followed.append(document(1) + "\n")
    followed.poll()
    (reading,) = followed.readings
    assert (f"file:{followed.path}", None) == (reading.source, reading.sender_pid)


def test_half_lines_wait_for_their_end(followed):
    line = document(1)
    followed.append(line[:30])
    assert followed.poll() == []
    assert followed.poll() == []
    followed.append(line[30:])
    assert followed.poll() == []
    followed.append("\n" + document(2) + "\n")
    assert followed.poll() == ["n1", "n2"]
    assert followed.errors == []


def test_a_whole_line_without_its_newline_is_taken_when_nothing_follows(followed):
    followed.append(document(1))
    assert followed.poll() == []
    assert followed.poll() == ["n1"]
    followed.append("\n" + document(2) + "\n")
    assert followed.poll() == ["n2"]
    assert followed.errors == []


def test_a_file_written_anew_each_time_is_read_each_time(followed):
    """Same inode, same size: only the content tells."""
    for number in range(1, 6):
        followed.path.write_text(document(number))
        followed.poll()
        assert followed.poll() == [f"n{number}"]


def test_a_longer_file_in_its_place_is_read_whole(followed):
    followed.path.write_text(document(7) + "\n" + document(8) + "\n")
    assert followed.poll() == ["n7", "n8"]


def test_a_rotated_file_is_followed_to_its_successor(followed):
    followed.path.rename(f"{followed.path}.1")
    followed.append(document(1) + "\n")
    assert followed.poll() == ["n1"]


def test_a_truncated_file_is_read_from_its_start(followed):
    followed.append(document(1) + "\n" + document(2) + "\n")
    followed.poll()
    os.truncate(followed.path, 0)
    assert followed.poll() == []
    followed.append(document(3) + "\n")
    assert followed.poll() == ["n3"]


def test_half_a_line_of_the_old_file_is_not_glued_to_the_new(followed):
    followed.append(document(1)[:30])
    followed.poll()
    os.truncate(followed.path, 0)
    followed.append(document(2) + "\n")
    assert followed.poll() == ["n2"]
    assert followed.errors == []


def test_a_file_that_goes_and_comes_is_told_once(followed):
    followed.path.unlink()
    for _ in range(3):
        followed.poll()
    assert len(followed.errors) == 1
    assert "No such file or directory" in str(followed.errors[0])
    followed.append(document(1) + "\n")
    assert followed.poll() == ["n1"]
    followed.path.unlink()
    followed.poll()
    assert len(followed.errors) == 2


@pytest.mark.parametrize("through", ["itself", "symlink"])
@pytest.mark.parametrize("kind", ["fifo", "folder", "device"])
def test_what_is_no_file_is_refused_at_once(tmp_path, kind, through):
    target = tmp_path / "target"
    match kind:
        case "fifo":
            os.mkfifo(target)
        case "folder":
            target.mkdir()
        case "device":
            target.symlink_to("/dev/zero")
    path = target
    if through == "symlink":
        path = tmp_path / "link"
        path.symlink_to(target)
    followed = Followed(path).begin()
    followed.poll()
    (error,) = followed.errors
    assert "is not a regular file" in str(error)


def test_a_symlink_to_a_file_is_followed_and_may_be_switched(tmp_path):
    """As mounted configuration does it."""
    for name in ("one", "two"):
        (tmp_path / name).write_text("")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "one")
    followed = Followed(link).begin()
    followed.append(document(1) + "\n")
    assert followed.poll() == ["n1"]
    link.unlink()
    (tmp_path / "two").write_text(document(2) + "\n")
    link.symlink_to(tmp_path / "two")
    assert followed.poll() == ["n2"]


def test_rubbish_is_an_error_that_does_not_quote_it(followed):
    followed.append("root:hunter2-canary:0\n" + document(1) + "\n")
    assert followed.poll() == ["n1"]
    (error,) = followed.errors
    assert "hunter2" not in str(error)


def test_a_line_without_end_is_dropped_and_the_next_one_read(tmp_path):
    path = tmp_path / "statistics"
    path.write_text("")
    followed = Followed(path, max_bytes=100_000).begin()
    for _ in range(5):
        followed.append("x" * 90_000)
        followed.poll()
    assert len(followed.errors) == 1
    assert "a line of more than 100000 bytes" in str(followed.errors[0])
    followed.append("\n" + document(1) + "\n")
    assert followed.poll() == ["n1"]


def test_a_poll_reads_no_more_than_its_bound(tmp_path):
    path = tmp_path / "statistics"
    path.write_text("")
    followed = Followed(path, max_bytes=300_000).begin()
    lines = [document(number, x="y" * 10_000) + "\n" for number in range(100)]
    followed.append("".join(lines))
    counts = [len(followed.poll()) for _ in range(4)]
    assert sum(counts) == 100
    assert counts[0] < 60


def test_it_follows_by_itself_and_stops(tmp_path):
    import threading

    path = tmp_path / "statistics"
    path.write_text("")
    arrived = threading.Event()
    follower = StatisticsFile(
        str(path), lambda _: arrived.set(), pytest.fail, interval_seconds=0.01
    )
    follower.start()
    path.write_text(document(1) + "\n")
    assert arrived.wait(5)
    follower.stop()
    assert not any(thread.name == "brokerwire-statistics" for thread in threading.enumerate())
