"""S10: a TCP health probe every second is seen, counted, and never called a client."""

from __future__ import annotations

import socket
import struct
import threading

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]


@pytest.fixture
def probing():
    """A thread that connects and hangs up; `reset` as load balancers do."""
    stop = threading.Event()
    threads = []

    def start(address: str, *, interval: float, reset: bool) -> None:
        host, _, port = address.rpartition(":")

        def probe() -> None:
            while not stop.wait(interval):
                with socket.create_connection((host, int(port)), timeout=5) as probe:
                    if reset:
                        linger = struct.pack("ii", 1, 0)
                        probe.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

        thread = threading.Thread(target=probe, daemon=True)
        thread.start()
        threads.append(thread)

    yield start
    stop.set()
    for thread in threads:
        thread.join(5)


def test_probes_are_seen_and_are_no_clients(shared_cluster_2, stage, probing):
    shared_cluster_2.create_topic("probed", 2)
    play = stage(shared_cluster_2)
    client = play.java("3.9.2")
    watch = play.watch()
    client.producer("quiet")
    client.send("quiet", "probed", partitions=[0, 1])
    watch.wait_right()
    first, second = shared_cluster_2.addresses().values()
    probing(first, interval=1.0, reset=False)
    probing(second, interval=1.0, reset=True)
    for address in (first, second):
        watch.wait(
            lambda s: s.totals.probes.get(address, 0) >= 5,  # noqa: B023
            f"probes of {address} to be counted",
        )
        watch.wait(
            lambda _: watch.findings("KafkaClientConnectionChurn", broker=address, cause="probe"),  # noqa: B023
            f"the finding about {address}",
        )
        [finding] = watch.findings("KafkaClientConnectionChurn", broker=address)
        assert "health probe" in finding.description
    snapshot = watch.snapshot
    for address in (first, second):
        failures = snapshot.totals.connect_failures.items()
        assert sum(count for key, count in failures if key.broker == address) == 0
    # What was counted of them has no client's name on it, and is the prober's own doing.
    by = {key.broker: str(by) for (key, by), count in snapshot.totals.closed.items() if count}
    assert (by[first], by[second]) == ("client", "client")
    assert {key.client_id for (key, _by), count in snapshot.totals.closed.items() if count} == {""}
    watch.assert_never_wrong()
    assert {c.client_id for c in snapshot.connections} == {"quiet"}
