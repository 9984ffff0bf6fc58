"""The chart's CronJob of the rollups: from a sidecar's journal in Kafka to Prometheus."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.kubernetes.applications import upgrade_orders
from tests.kubernetes.cluster import wait_for
from tests.kubernetes.images import ROLLUPS, bring_rollups
from tests.kubernetes.prometheus import PUSHGATEWAY, asked_for, start_pushgateway
from tests.kubernetes.walk import OURS, SHOP, metrics_of

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path

    from tests.kubernetes.walk import Walk

CLAIM = "fleet-tables"
USER = 65532
DATA = "/var/lib/brokerwire"
CRONJOB = "cronjob/brokerwire-rollups"
# Series of two connections, six batches of them in a minute.
RECORDS = 20
# A job is a JVM, Spark in it, and Delta tables: most of it on the processor.
JOB_SECONDS = 900


def add_up(walk: Walk, stack: ExitStack, servers: str, before: dict[str, Any]) -> None:
    """A sidecar writes its journal to Kafka, a job of the CronJob makes tables and report of it."""
    start_pushgateway(walk, stack)
    pod = _with_journal(walk, servers, before)
    bring_rollups(walk)
    tables = walk.folder / "tables"
    walk.cluster.kubectl("apply", "-f", "-", text=_volume(tables))
    values = walk.folder / "rollups.yaml"
    values.write_text(yaml.safe_dump({"rollups": _rollups(servers)}))
    walk.upgrade_ours("--values", values)
    wait_for("records in the topic", lambda: _written(pod) >= RECORDS)
    walk.say(f"rollups: the sidecar's journal is in the topic, {_written(pod):.0f} records")
    _run(walk)
    walk.say("rollups: a job of the CronJob made tables and report of it, on the volume")
    assert "</html>" in (tables / "report.html").read_text()
    _compare(walk, (tables / "fleet.prom").read_text())
    # What the dashboard Fleet efficiency shows first.
    query = "max(kafka_client_fleet_efficiency_ratio)"
    (found,) = wait_for("the fleet's metrics in Prometheus", lambda: asked_for(query))
    efficiency = float(found["value"][1])
    walk.say(f"  Prometheus has it by the Pushgateway that the job pushed to: {efficiency:.2f}")


def _with_journal(walk: Walk, servers: str, before: dict[str, Any]) -> dict[str, Any]:
    kafka = {"bootstrap_servers": servers, "spool_folder": f"{DATA}/spool"}
    journal = {"interval": "10s", "kafka": kafka}
    values = walk.folder / "journal.yaml"
    values.write_text(yaml.safe_dump({"brokerwire": {"config": {"journal": journal}}}))
    return upgrade_orders(walk, before, "--values", values)


def _rollups(servers: str) -> dict[str, Any]:
    repository, _, tag = ROLLUPS.rpartition(":")
    return {
        "kind": "cronjob",
        "image": {"repository": repository, "tag": tag},
        "kafka": servers,
        "claim": CLAIM,
        "report": {"pushgateway": f"http://{PUSHGATEWAY}"},
        "memory": "1g",
        "resources": {
            "requests": {"cpu": "100m", "memory": "1Gi"},
            "limits": {"memory": "3Gi"},
        },
    }


def _volume(folder: Path) -> str:
    """A claim on a folder of the node, whose owner is the CronJob's user."""
    folder.mkdir()
    os.chown(folder, USER, USER)
    shared = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    room = {"storage": "1Gi"}
    claimed = {"namespace": OURS, "name": CLAIM}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": CLAIM},
        "spec": {
            **shared,
            "capacity": room,
            "hostPath": {"path": str(folder)},
            "claimRef": claimed,
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": claimed,
        "spec": {**shared, "resources": {"requests": room}, "volumeName": CLAIM},
    }
    return yaml.safe_dump_all([volume, claim])


def _written(pod: dict[str, Any]) -> float:
    """Return how many records of a sidecar brokers have."""
    start = 'brokerwire_journal_records_total{sink="kafka"} '
    found = [line for line in metrics_of(pod) if line.startswith(start)]
    return float(found[0].removeprefix(start)) if found else 0.0


def _run(walk: Walk) -> None:
    """Run the CronJob once, now."""
    name = "fleet"
    create = ("create", "job", f"--from={CRONJOB}", name, "--namespace", OURS)
    job = json.loads(walk.cluster.kubectl(*create, "--dry-run=client", "-o", "json"))
    # The first failure is to be seen.
    job["spec"]["backoffLimit"] = 0
    walk.cluster.kubectl("apply", "-f", "-", text=json.dumps(job))

    def ended() -> dict[str, Any] | None:
        status: dict[str, Any] = walk.cluster.get("job", name, OURS).get("status", {})
        return status if status.get("succeeded") or status.get("failed") else None

    status = wait_for(f"the job {name}", ended, JOB_SECONDS)
    if not status.get("succeeded"):
        logs = ("logs", f"job/{name}", "--all-containers", "--namespace", OURS)
        raise AssertionError(walk.cluster.kubectl(*logs))


def _compare(walk: Walk, text: str) -> None:
    """The report must name the application, and its zombie as waste."""
    samples = [each for family in text_string_to_metric_families(text) for each in family.samples]
    alone = {each.name: each.value for each in samples if not each.labels}
    wasted = {
        (each.labels["namespace"], each.labels["service"]): each.value
        for each in samples
        if each.name == "kafka_client_fleet_service_wasted_connections"
    }
    assert alone["brokerwire_rollup_agents"] == 1, text
    assert list(wasted) == [(SHOP, "orders")], wasted
    assert wasted[SHOP, "orders"] > 0
    efficiency = alone["kafka_client_fleet_efficiency_ratio"]
    # One connection that is useful, beside one that is not from soon after its beginning.
    assert 0.4 < efficiency < 0.8, efficiency
    walk.say(f"  its report: waste of one service, orders in {SHOP}; efficiency {efficiency:.2f}")
