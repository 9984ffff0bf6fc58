"""The page that a pod's annotations name: a hint of whoever wrote the pod, never obeyed blindly."""

from __future__ import annotations

import logging
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.clients.declared_pages import CHECK_SECONDS
from exporter.clients.pod_annotations import NAMES, PodAnnotations, page_of_annotations
from exporter.errors import SourceDecodeError

NOTHING = dict.fromkeys(NAMES, "")


def page(**annotations):
    return page_of_annotations(NOTHING | annotations, {10920})


class Pod:
    """A folder as the downward API mounts it, and the time."""

    def __init__(self, folder):
        self.folder = folder
        self.now = 0.0
        self.annotate(**NOTHING)
        self.followed = PodAnnotations(str(folder), {10920}, lambda: self.now)

    def annotate(self, **annotations):
        for name, text in annotations.items():
            (self.folder / name).write_text(text)

    def follow(self, *, others=False):
        """Return the URLs of the pages that ended and began."""
        self.now += CHECK_SECONDS
        return [
            None if each is None else each.settings.url
            for each in self.followed.follow(others=others)
        ]


@pytest.fixture
def pod(tmp_path):
    return Pod(tmp_path)


def test_port_and_path_name_a_page_on_loopback_and_why_it_was_taken():
    found = page(port="8080", path="/actuator/prometheus", scrape="true", scheme="http")
    assert found.settings.url == "http://127.0.0.1:8080/actuator/prometheus"
    assert (found.settings.name, found.settings.format) == ("annotation:8080", "auto")
    assert found.found_by == (
        "pod annotation prometheus.io/port 8080, prometheus.io/path /actuator/prometheus"
    )
    # Which process listens is not said: a pod has containers that cannot be seen.
    assert found.pid is None


def test_without_a_path_it_is_the_usual_one():
    found = page(port=" 9404\n")
    assert found.settings.url == "http://127.0.0.1:9404/metrics"
    assert found.found_by == "pod annotation prometheus.io/port 9404"


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({}, id="none"),
        pytest.param({"path": "/metrics"}, id="no port"),
        pytest.param({"port": "8080", "scrape": "false"}, id="not to be scraped"),
        pytest.param({"port": "10920"}, id="the agent's own page"),
    ],
)
def test_a_pod_without_such_a_page_is_no_error(annotations):
    assert page(**annotations) is None


@pytest.mark.parametrize(
    ("annotations", "error"),
    [
        ({"port": "metrics"}, "prometheus.io/port must be a number from 1 to 65535, not 'metrics'"),
        ({"port": "0"}, "port must be a number"),
        ({"port": "65536"}, "port must be a number"),
        ({"port": "٩"}, "port must be a number"),
        ({"port": "80@evil:1"}, "port must be a number"),
        ({"port": "80", "path": "metrics"}, "path must be a path such as"),
        ({"port": "80", "path": "//evil/x?y"}, "path must be a path such as"),
        ({"port": "80", "path": "/a\r\nHost: x"}, "path must be a path such as"),
        ({"port": "80", "scheme": "https"}, "a page with TLS belongs in sources.java"),
        ({"port": "80", "scheme": "file"}, "scheme must be http"),
    ],
)
def test_what_cannot_be_read_says_why(annotations, error):
    with pytest.raises(SourceDecodeError, match=error):
        page(**annotations)


@given(st.fixed_dictionaries(dict.fromkeys(NAMES, st.text(max_size=300))))
def test_whatever_a_pod_says_only_its_own_loopback_address_is_asked(annotations):
    try:
        found = page_of_annotations(annotations, {10920})
    except SourceDecodeError:
        return
    if found is not None:
        parts = urlsplit(found.settings.url)
        assert (parts.scheme, parts.hostname, parts.username) == ("http", "127.0.0.1", None)
        assert found.settings.url.isprintable()
        assert parts.port != 10920


def test_annotations_may_change_while_the_pod_runs(pod):
    assert pod.follow() == [None, None]
    pod.annotate(port="8080")
    first = "http://127.0.0.1:8080/metrics"
    assert pod.follow() == [None, first]
    assert pod.follow() == [None, None]
    pod.annotate(path="/prometheus")
    second = "http://127.0.0.1:8080/prometheus"
    assert pod.follow() == [first, second]
    pod.annotate(port="")
    assert pod.follow() == [second, None]


def test_the_files_are_read_every_ten_seconds_at_most(pod):
    pod.follow()
    pod.annotate(port="8080")
    pod.now += CHECK_SECONDS - 0.1
    assert pod.followed.follow(others=False) == (None, None)
    pod.now += 0.1
    assert pod.followed.follow(others=False)[1] is not None


def test_a_page_that_a_process_declares_takes_its_place(pod):
    """Both may show the same clients, which would count twice."""
    pod.annotate(port="8080")
    url = "http://127.0.0.1:8080/metrics"
    assert pod.follow(others=True) == [None, None]
    assert pod.follow(others=False) == [None, url]
    assert pod.follow(others=True) == [url, None]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        pytest.param(
            lambda folder: (folder / "port").unlink(), "mount the annotation", id="not mounted"
        ),
        pytest.param(
            lambda folder: (folder / "port").write_text("8" * 100_000), "longer than", id="long"
        ),
        pytest.param(
            lambda folder: (folder / "port").write_bytes(b"\xff\x00"),
            "must be a number",
            id="bytes",
        ),
        pytest.param(
            lambda folder: ((folder / "path").unlink(), (folder / "path").mkdir()),
            "Is a directory",
            id="a folder",
        ),
    ],
)
def test_what_is_wrong_is_logged_once_and_ends_with_it(pod, caplog, change, error):
    change(pod.folder)
    with caplog.at_level(logging.WARNING, logger="brokerwire.sources"):
        assert pod.follow() == [None, None]
        assert pod.follow() == [None, None]
    [record] = caplog.records
    assert error in record.error
    if (pod.folder / "path").is_dir():
        (pod.folder / "path").rmdir()
    pod.annotate(port="8080", path="")
    assert pod.follow()[1] == "http://127.0.0.1:8080/metrics"
