"""What does the join of one read cost, beside parsing the page that was read?

    python -m bench.join

Processes simulated from the measured laws, with client groups and without: CPU of this process for
each read, in turns with parsing a page of the same clients. At first every socket is new,
later a part of them is busy. The last rows are recordings of real clients.
"""

from __future__ import annotations

__all__ = ["main"]

import argparse
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from exporter.clients.java import clients_from_prometheus
from exporter.join.attribution import Attributor
from exporter.model import Library
from tests.property.join_simulation.host import Host
from tests.property.join_simulation.observer import Observer
from tests.property.join_simulation.population import add_client, add_process
from tests.property.join_simulation.runs import READ_SECONDS
from tests.property.join_simulation.traits import ORDINARY, TRAITS
from tests.scenarios.join_recording import Recording, replay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from exporter.connections.tracker import TrackedConnection
    from exporter.model import ClientReading, JoinSample

RECORDINGS = Path(__file__).parent.parent / "tests" / "golden" / "join"

# Reads at which sockets are new; after them the usual ones begin.
FIRST_READS = 10


@dataclass(frozen=True)
class Result:
    """The CPU milliseconds of each read of one process, and of parsing what was read."""

    what: str
    nodes: int
    sockets: int
    joined: int
    reads: list[float]
    pages: list[float]


class _Timed(Attributor):
    """The join, which notes what each read costs, and what parsing such a page does."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[float] = []
        self.pages: list[float] = []
        self.nodes = 0

    def update(
        self,
        sample: JoinSample,
        connections: Mapping[int, TrackedConnection],
        addresses_of: Callable[[str], frozenset[str]] = lambda _host: frozenset(),
    ) -> list[int]:
        """Take one read."""
        page = _page(sample.reading.clients)
        begun = time.process_time()
        clients_from_prometheus(page)
        self.pages.append(1000 * (time.process_time() - begun))
        self.nodes = max(self.nodes, page.count("outgoing_byte_total"))
        begun = time.process_time()
        changed = super().update(sample, connections, addresses_of)
        self.reads.append(1000 * (time.process_time() - begun))
        return changed


def _page(clients: Iterable[ClientReading]) -> str:
    """Return the metrics page that jmx_exporter would show of these clients' nodes."""
    return "".join(
        f'kafka_{client.kind}_{client.kind}_node_metrics_{name}{{client_id="{client.client_id}",'
        f'node_id="node-{node.node_id}",}} {value}.0\n'
        for client in clients
        for node in client.nodes
        for name, value in (
            ("outgoing_byte_total", node.outgoing_bytes),
            ("incoming_byte_total", node.incoming_bytes),
            ("request_total", node.requests),
            ("response_total", node.responses),
        )
    )


def simulated(profile: str, clients: int, reads: int, *, grouped: bool) -> Result:
    """Measure a process of so many clients, of which some talk and some are idle."""
    traits = dict.fromkeys(TRAITS, False) | dict.fromkeys(ORDINARY, True)
    host = Host(profile, 1, traits | {"groups": grouped})
    process = add_process(host, 0, Library.JAVA)
    for number in range(clients):
        add_client(host, process, number)
    observer = Observer(host)
    attributor = _Timed()
    for number in range(reads):
        taken, gone = observer.turn(observer.begins_at + READ_SECONDS * number)
        attributor.forget(gone)
        for read in taken:
            attributor.update(read.sample, observer.connections, host.addresses_of)
    held = observer.connections
    return Result(
        f"{clients} clients, {profile}, {'groups' if grouped else 'no groups'}",
        attributor.nodes, len(held), sum(each in attributor.attributions for each in held),
        attributor.reads, attributor.pages,
    )  # fmt: skip


def recorded() -> Iterator[Result]:
    """Measure the replay of each recording: three Java processes and the clients of librdkafka."""
    for path in sorted(RECORDINGS.glob("*.json.gz")):
        attributor = _Timed()
        recording = Recording.load(path)
        *_, (_attributor, connections, _truths) = replay(recording, attributor)
        joined = sum(cookie in attributor.attributions for cookie in connections)
        name = path.name.partition(".")[0]
        yield Result(
            f"recording {name}", attributor.nodes, len(connections), joined,
            attributor.reads, attributor.pages,
        )  # fmt: skip


def results(reads: int) -> Iterator[Result]:
    """Measure one process after the other."""
    for clients in (1, 10, 40, 100):
        for profile in ("plaintext", "tls13", "sasl-ssl-scram"):
            for grouped in (True, False):
                yield simulated(profile, clients, reads, grouped=grouped)
    yield from recorded()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reads", type=int, default=40)
    options = parser.parse_args()
    print(
        "| process | nodes | sockets | joined at the end | first 10 reads, worst CPU ms |"
        " later, median CPU ms | later, worst | parsing the page, CPU ms | join of that |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for each in results(options.reads):
        later = each.reads[FIRST_READS:]
        median, page = statistics.median(later), statistics.median(each.pages)
        figures = [
            f"{each.nodes:,}", f"{each.sockets:,}", f"{each.joined:,}",
            f"{max(each.reads[:FIRST_READS]):.2f}", f"{median:.2f}", f"{max(later):.2f}",
            f"{page:.2f}", f"{median / page:.2f}",
        ]  # fmt: skip
        print(f"| {' | '.join([each.what, *figures])} |", flush=True)


if __name__ == "__main__":
    main()
