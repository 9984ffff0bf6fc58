"""Metrics pages that processes declare: what is taken, and what no command line can make us ask."""

from __future__ import annotations

import pytest

from exporter.clients.declared_pages import (
    CHECK_SECONDS,
    MOST_PAGES,
    DeclaredPages,
    page_of_options,
)
from exporter.model import Library, Owner, OwnerRung

JMX = "-javaagent:/jmx/jmx_prometheus_javaagent-1.0.1.jar="
JOLOKIA = "-javaagent:/jmx/jolokia-agent-jvm-2.5.0-javaagent.jar="


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        (JMX + "127.0.0.1:9404:/r.yaml", ("jmx_exporter", "127.0.0.1", 9404, "/metrics")),
        (JMX + "9404:/r.yaml", ("jmx_exporter", "127.0.0.1", 9404, "/metrics")),
        (JMX + "0.0.0.0:9404:/r.yaml", ("jmx_exporter", "127.0.0.1", 9404, "/metrics")),
        (JMX + "localhost:9404:r.yaml", ("jmx_exporter", "127.0.0.1", 9404, "/metrics")),
        (JMX + "[::1]:9404:r.yaml", ("jmx_exporter", "[::1]", 9404, "/metrics")),
        (JMX + "127.9.9.9:65535:r", ("jmx_exporter", "127.9.9.9", 65535, "/metrics")),
        ("-javaagent:jmx_exporter.jar=1:r", ("jmx_exporter", "127.0.0.1", 1, "/metrics")),
        (JOLOKIA + "port=8778,host=127.0.0.1", ("jolokia", "127.0.0.1", 8778, "/jolokia/")),
        (JOLOKIA + "discoveryEnabled=false", ("jolokia", "127.0.0.1", 8778, "/jolokia/")),
        (JOLOKIA + "host=*,agentContext=/jmx", ("jolokia", "127.0.0.1", 8778, "/jmx/")),
    ],
)
def test_a_page_on_loopback_is_taken(option, expected):
    assert page_of_options(["-Xmx1g", option]) == expected


@pytest.mark.parametrize(
    "option",
    [
        pytest.param(JMX + "10.0.0.7:9404:/r.yaml", id="another host"),
        pytest.param(JMX + "169.254.169.254:80:/r.yaml", id="cloud metadata"),
        pytest.param(JMX + "metadata.internal:80:/r.yaml", id="a name"),
        pytest.param(JMX + "127.0.0.1:0:/r.yaml", id="port 0"),
        pytest.param(JMX + "127.0.0.1:65536:/r.yaml", id="no port"),
        pytest.param(JMX + "127.0.0.1:-1:/r.yaml", id="negative port"),
        pytest.param(JMX + "127.0.0.1:9404", id="no rules: the agent would not start"),
        pytest.param(JMX + "127.0.0.1:9404\r\nHost: x:/r", id="a header"),
        pytest.param(JMX + "127.0.0.1@10.0.0.7:9404:/r", id="a user"),
        pytest.param(JMX + "127.0.0.1:\u0669\u0664\u0660\u0664:/r", id="digits of another script"),
        pytest.param(JMX + "9404:" + "r" * 5000, id="too long"),
        pytest.param(JOLOKIA + "host=10.0.0.7", id="Jolokia on another host"),
        pytest.param(JOLOKIA + "port=x", id="Jolokia without a port"),
        pytest.param(JOLOKIA + "protocol=https", id="Jolokia with TLS"),
        pytest.param(JOLOKIA + "user=a,password=b", id="Jolokia with a user"),
        pytest.param(JOLOKIA + "agentContext=/x?y=z", id="a query"),
        pytest.param(JOLOKIA + "agentContext=//10.0.0.7:80", id="another authority"),
        pytest.param("-javaagent:/otel/opentelemetry-javaagent.jar=127.0.0.1:9404:x", id="other"),
        pytest.param("-javaagent:/jmx/jmx_prometheus_javaagent.jar", id="no arguments"),
        pytest.param("-Dx=" + JMX + "9404:r", id="not an option"),
    ],
)
def test_nothing_else_is(option):
    assert page_of_options([option]) is None


class Proc:
    """A /proc with processes that run and end."""

    def __init__(self, folder):
        self.folder = folder
        self.now = 0.0

    def run(self, pid, *arguments, started=100, **environment):
        place = self.folder / str(pid)
        place.mkdir(exist_ok=True)
        (place / "stat").write_text(f"{pid} (java) " + " ".join(["0"] * 19 + [str(started), "0"]))
        (place / "cmdline").write_bytes("\0".join(("java", *arguments, "")).encode())
        entries = "".join(f"{key}={value}\0" for key, value in environment.items())
        (place / "environ").write_text("PATH=/bin\0" + entries)
        return Owner(
            key=f"pid:{pid}@{started}",
            rung=OwnerRung.PROC_FD,
            name="java",
            pid=pid,
            library=Library.JAVA,
        )

    def end(self, pid):
        for path in (self.folder / str(pid)).iterdir():
            path.unlink()


@pytest.fixture
def proc(tmp_path):
    return Proc(tmp_path)


@pytest.fixture
def pages(proc):
    return DeclaredPages(lambda: proc.now, proc=str(proc.folder))


def test_a_jvm_s_command_line_names_its_page_and_why_it_was_taken(proc, pages):
    [page] = pages.new({1: proc.run(7, JMX + "127.0.0.1:9404:/r.yaml")})
    assert page.settings.url == "http://127.0.0.1:9404/metrics"
    assert (page.settings.name, page.settings.format) == ("jmx_exporter:9404", "prometheus")
    assert (page.pid, page.found_by) == (7, "-javaagent option in the command line of java (pid 7)")


@pytest.mark.parametrize("variable", ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"])
def test_its_environment_does_too(proc, pages, variable):
    [page] = pages.new({1: proc.run(7, **{variable: f"-Xmx1g {JOLOKIA}port=8779"})})
    assert page.settings.url == "http://127.0.0.1:8779/jolokia/"
    assert variable in page.found_by


def test_other_variables_and_other_libraries_are_not_read(proc, pages):
    jvm = proc.run(7, JAVA_OPTS=JMX + "9404:r")
    other = proc.run(8, JMX + "9405:r")
    other = Owner(key=other.key, rung=other.rung, name="x", pid=8, library=Library.LIBRDKAFKA)
    assert pages.new({1: jvm, 2: other}) == []


def test_a_process_is_looked_at_once_however_many_connections_it_has(proc, pages):
    jvm = proc.run(7, JMX + "9404:r")
    assert len(pages.new({1: jvm, 2: jvm})) == 1
    assert pages.new({1: jvm, 3: jvm}) == []
    # Without a connection for a while it keeps its page.
    assert pages.new({}) == []
    assert pages.new({4: jvm}) == []


def test_a_process_that_ended_loses_its_page_and_a_new_one_gets_it(proc, pages):
    pages.new({1: proc.run(7, JMX + "9404:r")})
    assert pages.gone() == []
    proc.end(7)
    proc.now += CHECK_SECONDS
    assert pages.gone() == ["jmx_exporter:9404"]
    [page] = pages.new({2: proc.run(9, JMX + "9404:r")})
    assert page.pid == 9


def test_a_pid_that_another_process_has_now_is_not_believed(proc, pages):
    before = proc.run(7, JMX + "9404:r", started=100)
    proc.run(7, JMX + "9405:r", started=200)
    assert pages.new({1: before}) == []


def test_a_process_without_a_proc_entry_is_passed_over(proc, pages):
    owner = proc.run(7, JMX + "9404:r")
    proc.end(7)
    assert pages.new({1: owner}) == []


def test_pages_are_bounded_and_a_port_is_read_once(proc, pages):
    owners = {n: proc.run(100 + n, f"{JMX}{9000 + n // 2}:r") for n in range(10 * MOST_PAGES)}
    found = pages.new(owners)
    assert len(found) == MOST_PAGES
    assert len({page.settings.url for page in found}) == MOST_PAGES
