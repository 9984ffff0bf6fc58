"""`python -m tests.lab.play`: a cluster and some clients to point the agent at, by hand.

Starts everything, prints where it is and the truth about every connection, then obeys
commands from standard input until it ends.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.lab.artifacts import fetch_artifacts
from tests.lab.cluster import KafkaCluster
from tests.lab.errors import LabError
from tests.lab.java_client import JMX_RULES, JavaClient, JavaMetrics
from tests.lab.listeners import LISTENERS
from tests.lab.rdkafka_client import RdkafkaClient, Statistics
from tests.lab.versions import CLIENT_GENERATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.lab.clients import ClientProcess

__all__ = ["main"]

_TOPIC: Final = "play"
_HELP: Final = """\
truth                      every connection, as the clients know it
kill|freeze|thaw|restart|move BROKER
send PROCESS PRODUCER      one record to every partition
poll PROCESS CONSUMER on|off
leak PROCESS PRODUCER      one more producer with the same client.id
close PROCESS CLIENT
log PROCESS                the end of the process's log
quit                       or the end of input"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Start what was asked for and stay until told to stop."""
    options = _options(arguments)
    try:
        with ExitStack() as stack:
            _play(options, stack)
    except LabError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print()
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.play", description=__doc__)
    parser.add_argument("--brokers", type=int, default=3, choices=(1, 2, 3))
    parser.add_argument("--listener", default="PLAINTEXT", choices=list(LISTENERS))
    parser.add_argument("--mechanism", default="PLAIN", choices=("PLAIN", "SCRAM-SHA-256"))
    parser.add_argument(
        "--java", action="append", default=[], choices=CLIENT_GENERATIONS, metavar="VERSION",
        help=f"a JVM with this generation, repeatable: {', '.join(CLIENT_GENERATIONS)}",
    )  # fmt: skip
    parser.add_argument("--jmx", default="plain", choices=[*JMX_RULES, "none"])
    parser.add_argument("--jolokia", action="store_true")
    parser.add_argument("--micrometer", action="store_true")
    parser.add_argument("--librdkafka", action="store_true", help="a process with librdkafka")
    parser.add_argument("--statistics-post", metavar="URL")
    parser.add_argument("--statistics-socket", metavar="PATH", type=Path)
    parser.add_argument("--statistics-file", metavar="PATH", type=Path)
    parser.add_argument(
        "--property", action="append", default=[], metavar="KEY=VALUE",
        help="of every client, such as connections.max.idle.ms=8000",
    )  # fmt: skip
    return parser.parse_args(arguments)


def _play(options: argparse.Namespace, stack: ExitStack) -> None:
    artifacts = fetch_artifacts(say=print)
    cluster = KafkaCluster(artifacts, brokers=options.brokers, listeners=(options.listener,))
    stack.enter_context(cluster)
    cluster.create_topic(_TOPIC, 2 * options.brokers)
    for broker, address in cluster.addresses(options.listener).items():
        print(f"broker {broker} {address} pid {cluster.pid(broker)}")
    processes: dict[str, ClientProcess] = {}
    metrics = JavaMetrics(
        jmx_exporter=None if options.jmx == "none" else options.jmx,
        jolokia=options.jolokia,
        micrometer=options.micrometer,
    )
    for generation in options.java:
        java = stack.enter_context(JavaClient(artifacts, cluster, generation, metrics=metrics))
        urls = " ".join(filter(None, (java.jmx_url, java.jolokia_url, java.micrometer_url)))
        print(f"java-{generation} pid {java.pid} {urls}")
        processes[f"java-{generation}"] = java
    if options.librdkafka:
        statistics = Statistics(
            post_to=options.statistics_post,
            socket=options.statistics_socket,
            file=options.statistics_file,
        )
        native = stack.enter_context(RdkafkaClient(artifacts, cluster, statistics=statistics))
        print(f"librdkafka pid {native.pid} version {native.version}")
        processes["librdkafka"] = native
    for name, process in processes.items():
        _populate(name, process, options)
    _print_truth(processes)
    print(_HELP)
    for line in sys.stdin:
        if line.strip() == "quit":
            return
        try:
            _obey(line.split(), cluster, processes)
        except (LabError, KeyError, ValueError, IndexError) as error:
            print(f"{type(error).__name__}: {error}")


def _populate(name: str, process: ClientProcess, options: argparse.Namespace) -> None:
    """Give each process one of everything: the ordinary connections of an application."""
    more = {key: value for key, _, value in (pair.partition("=") for pair in options.property)}
    common = {"listener": options.listener, "mechanism": options.mechanism}
    partitions = range(2 * options.brokers)
    process.producer("orders", **common, properties=more)
    process.send("orders", _TOPIC, partitions=partitions, rounds=-1, interval=1, wait=False)
    transactional = {**more, "transactional.id": f"payments-{name}"}
    process.producer("payments", **common, properties=transactional)
    process.send("payments", _TOPIC, partitions=partitions)
    process.consumer("billing", topics=[_TOPIC], group=f"g-{name}", **common, properties=more)
    process.admin("operator", **common, properties=more)
    process.ask("operator")
    process.wait_assignment("billing", partitions=len(partitions))


def _obey(words: Sequence[str], cluster: KafkaCluster, processes: dict[str, ClientProcess]) -> None:
    match words:
        case []:
            pass
        case ["truth"]:
            _print_truth(processes)
        case ["kill" | "freeze" | "thaw" | "restart" | "move" as verb, broker]:
            print(getattr(cluster, verb)(int(broker)) or "done")
        case ["send", process, name]:
            partitions = range(2 * len(cluster.broker_ids))
            print(processes[process].send(name, _TOPIC, partitions=partitions))
        case ["poll", process, name, "on" | "off" as on]:
            processes[process].poll(name, on=on == "on")
        case ["leak", process, name]:
            processes[process].leak(name)
        case ["close", process, name]:
            processes[process].close(name)
        case ["log", process]:
            print(processes[process].process.log_text()[-3000:])
        case _:
            print(_HELP)


def _print_truth(processes: dict[str, ClientProcess]) -> None:
    for process in processes.values():
        print(f"\n{process.process.name} pid {process.pid}")
        for c in sorted(process.truth(), key=lambda c: (c.name, c.instance, c.role, c.remote)):
            twin = f"#{c.instance}" if c.instance else ""
            also = " +transaction" if c.is_transaction_coordinator else ""
            print(
                f"  {c.client_id + twin:12} {c.client_kind:9} {c.role + also:17} "
                f"{c.node_id:32} {c.local:22} {c.remote:22} broker {c.broker_id}"
            )
    print(flush=True)


if __name__ == "__main__":
    sys.exit(main())
