"""A real client, an agent beside it, a topic, the stream, the tables, the report: each is killed."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import replace

import psutil
import pytest

from exporter.config.journal import JournalFileSettings, JournalKafkaSettings, JournalSettings
from exporter.config.settings import ClassSettings
from exporter.config.text import yaml_from_settings
from tests.integration.test_cli import running
from tests.integration.test_journal_kafka import consume
from tests.lab.cluster import KafkaCluster
from tests.lab.processes import wait_until
from tests.scenarios.stage import Stage
from tests.spark.command import Command, run_to_the_end
from tests.spark.comparing import differences
from tests.spark.fleets import batch
from tests.unit.journal_reduction import DIMS

TOPIC = "brokerwire-journal"
HOUR_MS = 3_600_000
SUMS = (
    *("connection_ms", "useful_ms", "opened", "closed_by_client", "closed_by_broker"),
    *("closed_by_reset", "closed_unknown", "connect_failures", "bytes_out", "bytes_in"),
)


def agent_settings(play, folder, servers):
    kafka = JournalKafkaSettings(
        bootstrap_servers=servers, topic=TOPIC, spool_folder=str(folder / "spool")
    )
    journal = JournalSettings(
        interval=1.0,
        agent_id="beside-orders",
        labels={"cluster": "lab", "namespace": "shop", "service": "orders"},
        file=JournalFileSettings(path=str(folder / "journal" / "journal.jsonl")),
        kafka=kafka,
    )
    return replace(play.settings(), journal=journal)


def spooled(folder):
    return sorted((folder / "spool").glob("*.jsonl"))


def lines_of(folder):
    texts = [path.read_text("utf-8") for path in sorted((folder / "journal").glob("*.jsonl"))]
    return "".join(texts).splitlines()


def kill_between_batches(agent, folder):
    """Kill -9 the agent when both ways out have the same: what one alone has, they cannot share."""

    def the_same_in_both():
        agent.send_signal(signal.SIGSTOP)
        wait_until("it to stand", lambda: process.status() == psutil.STATUS_STOPPED, interval=0.01)
        last = spooled(folder)[-1].read_text("utf-8").splitlines()
        if lines_of(folder)[-len(last) :] == last:
            return True
        agent.send_signal(signal.SIGCONT)
        return False

    process = psutil.Process(agent.pid)
    wait_until("a moment between two batches", the_same_in_both, interval=0.3)
    agent.kill()
    agent.wait()


def added_up(lines):
    """What the table `hourly` must say of a file, by hour and dimensions."""
    greatest, about = defaultdict(dict), {}
    for record in map(json.loads, lines):
        if record["kind"] == "connections":
            series, hour = (record["boot_id"], record["series"]), (record["at_ms"] - 1) // HOUR_MS
            about[series] = tuple(record[name] for name in DIMS)
            so_far = greatest[series].setdefault(hour, dict.fromkeys(SUMS, 0))
            for name in SUMS:
                so_far[name] = max(so_far[name], record[name])
    rows = defaultdict(lambda: dict.fromkeys(SUMS, 0))
    for series, hours in greatest.items():
        before = dict.fromkeys(SUMS, 0)
        for hour, now in sorted(hours.items()):
            for name in SUMS:
                rows[hour, *about[series]][name] += now[name] - before[name]
            before = now
    return {key: row for key, row in rows.items() if any(row.values())}


def told(tables):
    names = ", ".join([*DIMS, *SUMS])
    rows = tables.read("hourly").selectExpr("unix_millis(hour) AS at", *names.split(", "))
    return {
        (row["at"] // HOUR_MS, *(row[name] for name in DIMS)): {
            name: int(row[name]) for name in SUMS
        }
        for row in rows.collect()
    }


def open_in_a_browser(page):
    """Return the words of a page that a browser has opened without a complaint."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        opened, complaints = browser.new_page(), []
        opened.on("console", lambda message: complaints.append(message.text))
        opened.on("pageerror", lambda error: complaints.append(str(error)))
        opened.goto(page.as_uri())
        words = opened.inner_text("body")
        browser.close()
    assert complaints == []
    return words


@pytest.mark.ondemand
@pytest.mark.lab
@pytest.mark.timeout(1500)
def test_from_the_client_to_the_report_though_each_part_is_killed(
    spark, tables, lab_artifacts, tmp_path
):
    from spark_rollups.tables import Tables

    folder, streamed = tmp_path / "agent", tmp_path / "streamed"
    (folder / "journal").mkdir(parents=True)
    with ExitStack() as stack:
        cluster = stack.enter_context(KafkaCluster(lab_artifacts, brokers=2))
        cluster.create_topic("orders", 1, leaders=[1])
        cluster.create_topic(TOPIC, 1, leaders=[2])
        play = Stage(lab_artifacts, cluster, stack, tmp_path)
        client = play.librdkafka()
        for name in ("orders-a", "orders-b"):
            client.producer(name)
            client.send(name, "orders", partitions=[0], rounds=-1, interval=0.3, wait=False)
        config = folder / "brokerwire.yaml"
        config.write_text(yaml_from_settings(agent_settings(play, folder, cluster.bootstrap())))

        def stream(*flags):
            return Command(
                *("stream", "--kafka", cluster.bootstrap(), "--topic", TOPIC, "--memory", "1g"),
                *("--tables", streamed, "--checkpoint", tmp_path / "checkpoint", *flags),
            )

        with running("--config", str(config)) as agent:
            # The stream: its first batch is in silver, and nowhere else.
            first = stream("--every", "1 second", "--refresh-every", "0")
            first.kill_when(lambda: first.said("rows in"))
            # The broker; what the agent writes now waits on disk, beyond the agent's own end.
            cluster.kill(2)
            wait_until("the spool to fill", lambda: len(spooled(folder)) >= 3)
            kill_between_batches(agent, folder)
        waiting = {path.name for path in spooled(folder)}
        with running("--config", str(config)) as agent:
            cluster.restart(2)
            client.producer("orders-c")
            client.send("orders-c", "orders", partitions=[0], rounds=-1, interval=0.3, wait=False)
            wait_until(
                "the spool to be sent",
                lambda: not waiting & {path.name for path in spooled(folder)},
            )
            client.close("orders-b")
            # Openings are counted once their client has had the time to become known.
            time.sleep(ClassSettings().settle_after + 1)
            # The client, in the middle of its sending; the agent sees how that ended.
            client.end()
            time.sleep(3)
            agent.send_signal(signal.SIGTERM)
            assert agent.wait(20) == 0
        assert spooled(folder) == []
        messages = {each.value().decode() for each in consume(cluster.bootstrap(), TOPIC)}
        lines = lines_of(folder)
        assert messages == set(lines)
        assert len({json.loads(line)["boot_id"] for line in lines}) == 2

        # The stream once more, while it makes the tables behind silver.
        second = stream("--once")
        second.kill_when(lambda: second.said("hours again"))
        assert not second.said("days again")
        assert stream("--once").end() == 0

    by_stream = Tables(spark, str(streamed))
    batch(tables, folder / "journal")
    expected = added_up(lines)
    for name in ("connection_ms", "useful_ms", "opened", "closed_by_client", "bytes_out"):
        assert sum(row[name] for row in expected.values()) > 0
    assert {key: row for key, row in told(by_stream).items() if any(row.values())} == expected
    assert by_stream.count("quarantine") == 0
    assert differences(by_stream, tables) == {}

    page = tmp_path / "report.html"
    run_to_the_end("report", "--tables", streamed, "--out", page, "--memory", "1g")
    assert "orders" in open_in_a_browser(page)
