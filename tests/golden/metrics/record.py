"""Record real pages of real clients: `python -m tests.golden.metrics.record [options]`.

The lab brings jmx_exporter 1.x, Jolokia, Micrometer and librdkafka. The others are jars of your own:
`--jmx-0 jmx_prometheus_javaagent-0.20.0.jar`, `--opentelemetry opentelemetry-javaagent.jar`,
`--strimzi FOLDER` (strimzi's client-metrics-reporter and what it needs).
Pages are cut down to the metrics of connections and their neighbours, except `full.prom`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from tests.golden.metrics.expected import write_expected
from tests.lab.addresses import free_port
from tests.lab.artifacts import fetch_artifacts
from tests.lab.cluster import KafkaCluster
from tests.lab.java_client import JMX_RULES, JavaClient, JavaMetrics
from tests.lab.rdkafka_client import RdkafkaClient, Statistics
from tests.lab.versions import CLIENT_GENERATIONS

from exporter.clients.jolokia import bulk_read

HERE = Path(__file__).parent
RULES = HERE.parents[2] / "examples" / "jmx_exporter" / "brokerwire.yaml"
KEPT = re.compile(
    rb"kafka_\w*(?:connection|node|app|version|_byte_total|_request_total|_response_total)|# EOF"
)
# Micrometer looks for new metrics once a minute.
MICROMETER_SECONDS = 62
ODD_NAME = 'billing: daily, "all"'


def get(url, body=None):
    with urllib.request.urlopen(urllib.request.Request(url, data=body), timeout=30) as answer:
        return answer.read()


def cut(page):
    return b"".join(line for line in page.splitlines(keepends=True) if KEPT.search(line))


def populate(java, generation, odd_name, **more):
    java.producer("orders", **more)
    java.send("orders", "orders", partitions=range(5))
    name = ODD_NAME if odd_name else "billing"
    java.consumer(name, topics=["orders"], group=f"g-{time.monotonic_ns()}", **more)
    java.wait_assignment(name, partitions=5)
    if generation != "2.1.0":
        java.admin("operator", **more)
        java.ask("operator")
    time.sleep(1)


def record_lab(artifacts, cluster, stack):
    late = []
    for generation in CLIENT_GENERATIONS:
        for name, rules in {**JMX_RULES, "brokerwire": RULES}.items():
            is_plain = name == "plain"
            how = JavaMetrics(jmx_exporter=rules, jolokia=is_plain, micrometer=is_plain)
            java = stack.enter_context(JavaClient(artifacts, cluster, generation, metrics=how))
            populate(java, generation, odd_name=is_plain)
            page = get(java.jmx_url)
            (HERE / f"jmx-1-{name}-{generation}.prom").write_bytes(cut(page))
            if not is_plain:
                java.end()
                continue
            if generation == "4.4.0":
                (HERE / "full.prom").write_bytes(page)
            answer = json.dumps(json.loads(get(java.jolokia_url, bulk_read())), indent=1)
            (HERE / f"jolokia-{generation}.json").write_text(answer + "\n")
            late.append((generation, java))
    time.sleep(MICROMETER_SECONDS)
    for generation, java in late:
        page = get(java.micrometer_url)
        (HERE / f"micrometer-{generation}.prom").write_bytes(cut(page))
        java.end()


def record_agent(artifacts, cluster, name, options, port, properties=None, wait=0):
    generation = "4.4.0" if name != "opentelemetry" else "3.9.2"
    with JavaClient(artifacts, cluster, generation, jvm_options=tuple(options)) as java:
        populate(java, generation, odd_name=True, properties=properties or {})
        time.sleep(wait)
        page = get(f"http://127.0.0.1:{port}/metrics")
        (HERE / f"{name}-{generation}.prom").write_bytes(cut(page))


def record_others(options, artifacts, cluster):
    for name, jar, rules in (
        ("jmx-0-plain", options.jmx_0, JMX_RULES["plain"]),
        ("jmx-0-connect", options.jmx_0, JMX_RULES["connect"]),
        ("jmx-0-brokerwire", options.jmx_0, RULES),
    ):
        if jar:
            port = free_port("127.0.0.1")
            record_agent(
                artifacts, cluster, name, [f"-javaagent:{jar}=127.0.0.1:{port}:{rules}"], port
            )
    if options.opentelemetry:
        port = free_port("127.0.0.1")
        settings = {
            "metrics.exporter": "prometheus", "traces.exporter": "none", "logs.exporter": "none",
            "exporter.prometheus.port": port, "exporter.prometheus.host": "127.0.0.1",
        }
        agent = [f"-javaagent:{options.opentelemetry}"]
        agent += [f"-Dotel.{key}={value}" for key, value in settings.items()]
        record_agent(artifacts, cluster, "opentelemetry", agent, port, wait=5)
    if options.strimzi:
        port = free_port("127.0.0.1")
        with tempfile.TemporaryDirectory() as folder:
            for jar in (*artifacts.client_jars["4.4.0"].iterdir(), *options.strimzi.iterdir()):
                os.symlink(jar, Path(folder) / jar.name)
            with_reporter = replace(
                artifacts, client_jars={**artifacts.client_jars, "4.4.0": Path(folder)}
            )
            properties = {
                "metric.reporters": "io.strimzi.kafka.metrics.prometheus.ClientMetricsReporter",
                "prometheus.metrics.reporter.listener": f"http://127.0.0.1:{port}",
            }
            record_agent(with_reporter, cluster, "strimzi", [], port, properties)


def record_statistics(artifacts, cluster):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "statistics"
        with RdkafkaClient(artifacts, cluster, statistics=Statistics(file=file)) as native:
            native.producer("orders")
            native.send("orders", "orders", partitions=range(5))
            native.producer("payments", properties={"transactional.id": "payments"})
            native.send("payments", "orders", partitions=range(5))
            native.consumer("billing", topics=["orders"], group="g-rdkafka")
            native.wait_assignment("billing", partitions=5)
            native.admin("operator")
            native.ask("operator", "configs", brokers=[1])
            time.sleep(3)
        documents = [json.loads(line) for line in file.read_text().splitlines()]
    last = {document["name"]: document for document in documents}
    for document in last.values():
        document["topics"] = dict(list(document["topics"].items())[:1])
        name = document["client_id"]
        (HERE / f"librdkafka-{name}.json").write_text(json.dumps(document, indent=1) + "\n")
    # The first seconds, when the bootstrap servers are still among the brokers.
    first = next(one for one in documents if one["client_id"] == "billing")
    (HERE / "librdkafka-billing-first.json").write_text(json.dumps(first, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jmx-0", type=Path)
    parser.add_argument("--opentelemetry", type=Path)
    parser.add_argument("--strimzi", type=Path)
    parser.add_argument("--only-others", action="store_true")
    options = parser.parse_args()
    artifacts = fetch_artifacts(say=print)
    with ExitStack() as stack:
        cluster = stack.enter_context(KafkaCluster(artifacts, brokers=2))
        cluster.create_topic("orders", 5)
        record_others(options, artifacts, cluster)
        if not options.only_others:
            record_statistics(artifacts, cluster)
            record_lab(artifacts, cluster, stack)
    write_expected()
    return 0


if __name__ == "__main__":
    sys.exit(main())
