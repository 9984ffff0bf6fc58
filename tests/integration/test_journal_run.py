"""`brokerwire run` with a journal: signals, kills, and real sockets in a real agent's records."""

from __future__ import annotations

import json
import signal
import socket
import time
import urllib.request

import jsonschema
import pytest

from tests.integration.test_cli import brokerwire, running
from tests.unit.journals import Bench, check


@pytest.fixture
def config(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as broker:
        path = tmp_path / "brokerwire.yaml"
        path.write_text(f"""
poll: {{interval: 100ms}}
brokers: {{ports: [{broker.getsockname()[1]}]}}
journal:
  interval: 1s
  labels:
    namespace: file:{tmp_path}/namespace
  file: {{path: {tmp_path}/journal.jsonl}}
""")
        (tmp_path / "namespace").write_text("shop\n")
        yield path, broker.getsockname()


def records_of(tmp_path):
    text = (tmp_path / "journal.jsonl").read_bytes()
    assert text.endswith(b"\n")
    return [json.loads(line) for line in text.splitlines()]


class ABatch:
    """A batch as it is read back."""

    def __init__(self, records):
        self.records, self.at_ms, self.final = records, records[0]["at_ms"], records[0]["final"]


def batches_of(records):
    found = {}
    for record in records:
        found.setdefault((record["boot_id"], record["seq"]), []).append(record)
    return [ABatch(members) for members in found.values()]


def test_sigterm_writes_a_last_batch_of_what_is_open(config, tmp_path):
    path, address = config
    with (
        running("--config", str(path), "--journal.label", "service=orders") as agent,
        socket.create_connection(address),
    ):
        begun = time.monotonic()
        time.sleep(2.5)
        least = (time.monotonic() - begun) * 1000 / 2
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(10) == 0
        most = (time.monotonic() - begun) * 1000
    records = records_of(tmp_path)
    batches = batches_of(records)
    check(batches, 1000)
    assert batches[-1].final
    assert {(each["namespace"], each["service"]) for each in records} == {("shop", "orders")}
    last = [each for each in batches[-1].records if each["kind"] == "connections"]
    assert sum(each["connections"] for each in last) == 1
    assert least < sum(each["connection_ms"] for each in last) <= most


def test_after_a_kill_the_file_is_whole_and_another_boot_begins(config, tmp_path):
    path, address = config
    with socket.create_connection(address):
        for number in range(2):
            with running("--config", str(path)) as agent:
                time.sleep(2.2)
                if number:
                    agent.send_signal(signal.SIGTERM)
                    assert agent.wait(10) == 0
    batches = batches_of(records_of(tmp_path))
    check(batches, 1000)
    boots = {batch.records[0]["boot_id"]: batch.final for batch in batches}
    assert list(boots.values()) == [False, True]
    assert len({each["agent_id"] for batch in batches for each in batch.records}) == 1


def test_the_metrics_tell_of_the_journal(config):
    path, _address = config
    with running("--config", str(path)) as agent:
        time.sleep(2.2)
        with urllib.request.urlopen(f"http://127.0.0.1:{agent.port}/metrics", timeout=5) as answer:
            text = answer.read().decode()
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("brokerwire"))
    assert float(lines['brokerwire_journal_records_total{sink="file"}']) >= 2
    assert float(lines['brokerwire_journal_failures_total{sink="file"}']) == 0
    assert float(lines["brokerwire_own_broker_connections"]) == 0


def test_a_label_whose_file_is_missing_is_told_at_once(config, tmp_path):
    path, _address = config
    (tmp_path / "namespace").unlink()
    done = brokerwire("run", "--config", str(path))
    assert done.returncode == 2
    assert "journal.labels: cannot read" in done.stderr
    assert "namespace" in done.stderr


@pytest.mark.parametrize("label", ["region=eu", "cluster", "pod="])
def test_a_wrong_label_is_told(config, label):
    path, _address = config
    done = brokerwire("run", "--config", str(path), "--journal.label", label)
    assert done.returncode == 2
    assert "--journal.label" in done.stderr


def test_labels_without_a_journal_are_a_mistake():
    done = brokerwire("run", "--journal.label", "cluster=eu")
    assert done.returncode == 2
    assert "section journal" in done.stderr


def test_an_agent_that_cannot_write_its_journal_serves_all_the_same(config, tmp_path):
    path, _address = config
    (tmp_path / "journal.jsonl").mkdir()
    with running("--config", str(path)) as agent:
        time.sleep(1.5)
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(10) == 0
        assert "cannot write the journal" in agent.stderr.read()


def test_the_check_finds_a_fraction():
    bench = Bench()
    bench.poll(seconds=0)
    bench.poll(seconds=61)
    wrong = ABatch([dict(record) | {"polls": 0.5} for record in bench.batches[0].records])
    with pytest.raises(jsonschema.ValidationError):
        check([wrong])
