"""Realistic snapshots, for whoever formats or serves one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from exporter.model import (
    ClientKind,
    ClosedBy,
    Confidence,
    Connection,
    ConnectionClass,
    Endpoint,
    Library,
    Owner,
    OwnerRung,
    ReadMethod,
    Role,
    TcpState,
)
from exporter.snapshot import (
    LIFETIME_BUCKETS,
    BrokerLimits,
    ClientBroker,
    ClientLibrary,
    Expectation,
    Finding,
    Histogram,
    OpenFiles,
    PollStatus,
    Severity,
    Snapshot,
    SourceStatus,
    Timing,
    Totals,
)

WALL_TIME = 1_767_225_600.0
AT = 10_000.0
PROCESS = Owner(key="41:1000", rung=OwnerRung.PROC_FD, name="orders", pid=41, uid=1000)
SIDE_PROCESS = Owner(key="77:1200", rung=OwnerRung.CGROUP, name="billing", cgroup_id=9120)


def connection(number: int = 1, **changes) -> Connection:
    """One connection of a Java producer to broker 1, data unless it is changed."""
    values = {
        "cookie": number,
        "local": Endpoint("10.1.0.7", 40000 + number),
        "remote": Endpoint("10.2.0.1", 9092),
        "tcp_state": TcpState.ESTABLISHED,
        "connection_class": ConnectionClass.DATA,
        "role": Role.DATA,
        "confidence": Confidence.EXACT,
        "evidence": ("sent 1803 bytes and so did node-1",),
        "owner": PROCESS,
        "client_id": "orders-producer",
        "client_kind": ClientKind.PRODUCER,
        "client_instance": "",
        "library": Library.JAVA,
        "node_id": "1",
        "broker_id": 1,
        "broker": "10.2.0.1:9092",
        "useful": True,
        "equals": (),
        "age_seconds": 750.0,
        "age_is_exact": True,
        "idle_seconds": 0.25,
        "outgoing_bytes": 1803,
        "incoming_bytes": 901,
        "send_queue": 0,
        "receive_queue": 0,
        "retransmits_total": 2,
        "rtt_seconds": 0.0007,
        "source": "orders",
        "expected_rule": "java-data",
        "close_expected": "by the client when idle for 9 minutes",
        "closes_in_seconds": 539.75,
    }
    return Connection(**(values | changes))


def half_closed(number: int, **changes) -> Connection:
    return connection(
        number,
        **{
            "tcp_state": TcpState.CLOSE_WAIT,
            "connection_class": ConnectionClass.HALF_CLOSED,
            "role": Role.COORDINATOR,
            "useful": False,
            "idle_seconds": 410.0,
            "evidence": ("the broker closed 410 s ago", "the client has not polled since"),
            "close_expected": "when the application polls again",
            "closes_in_seconds": None,
            "expected_rule": None,
        }
        | changes,
    )


def zombie(number: int, **changes) -> Connection:
    return connection(
        number,
        **{
            "connection_class": ConnectionClass.ZOMBIE,
            "role": Role.BOOTSTRAP,
            "node_id": "-1",
            "useful": False,
            "idle_seconds": 745.0,
            "unused_seconds": 745.0,
            "outgoing_bytes": 173,
            "incoming_bytes": 1422,
            "evidence": ("node--1 sent as many bytes", "idle closing is off"),
            "close_expected": "never: connections.max.idle.ms is -1",
            "closes_in_seconds": None,
            "expected_rule": None,
        }
        | changes,
    )


def unowned(number: int, **changes) -> Connection:
    return connection(
        number,
        **{
            "connection_class": ConnectionClass.UNKNOWN,
            "role": Role.UNKNOWN,
            "confidence": Confidence.NONE,
            "evidence": (),
            "owner": SIDE_PROCESS,
            "client_id": None,
            "client_kind": ClientKind.UNKNOWN,
            "library": Library.UNKNOWN,
            "node_id": None,
            "broker_id": None,
            "remote": Endpoint("fd00::2", 9092),
            "local": Endpoint("fd00::7", 40000 + number),
            "broker": "[fd00::2]:9092",
            "idle_seconds": None,
            "outgoing_bytes": None,
            "incoming_bytes": None,
            "rtt_seconds": None,
            "retransmits_total": None,
            "age_is_exact": False,
            "source": None,
            "expected_rule": None,
            "useful": False,
            "closes_in_seconds": None,
        }
        | changes,
    )


FINDING = Finding(
    name="KafkaClientZombieConnections",
    severity=Severity.WARNING,
    labels={"client_id": "orders-producer", "client_kind": "producer", "process": "orders"},
    summary="A client keeps connections that it will never use again.",
    description="orders-producer holds 1 connection to 10.2.0.1:9092 that was last used "
    "12 minutes ago and was opened under a bootstrap node id.",
    remedy="Set connections.max.idle.ms to 540000, or leave it out.",
    value=1.0,
    cookies=(2,),
)
SOURCES = (
    SourceStatus(
        name="orders",
        kind="java",
        up=True,
        duration_seconds=0.012,
        reads=120,
        errors=1,
        error=None,
        clients=1,
        last_success_wall_time=WALL_TIME - 4.0,
        dropped=3,
    ),
    SourceStatus(
        name="billing",
        kind="java",
        up=False,
        duration_seconds=None,
        reads=9,
        errors=9,
        error="cannot read http://127.0.0.1:9404/metrics: connection refused",
        clients=0,
        last_success_wall_time=None,
    ),
)
POLL = PollStatus(
    polls=900,
    failed_polls=2,
    duration_seconds=0.0021,
    method=ReadMethod.SOCK_DIAG,
    events_available=True,
    events_lost=0,
    owner_rungs={OwnerRung.PROC_FD: 3, OwnerRung.CGROUP: 1},
    unattributed_closed=4,
    capabilities=("reads /proc/PID/fd of uid 1000", "hears of each closed connection"),
    folded_clients=0,
)


def snapshot(connections: tuple[Connection, ...] | None = None, **changes) -> Snapshot:
    """A snapshot whose counts and totals follow from its connections."""
    if connections is None:
        connections = (connection(1), zombie(2), half_closed(3), unowned(4))
    pairs: dict[ClientBroker, dict[ConnectionClass, int]] = {}
    for each in connections:
        counts = pairs.setdefault(ClientBroker.of(each), dict.fromkeys(ConnectionClass, 0))
        counts[each.connection_class] += 1
    values = {
        "at": AT,
        "wall_time": WALL_TIME,
        "interval_seconds": 1.0,
        "connections": connections,
        "counts": pairs,
        "expected": {pair: _expectation(pair) for pair in pairs},
        "timings": _timings(connections),
        "libraries": _libraries(connections),
        "totals": totals(pairs),
        "findings": (FINDING,),
        "sources": SOURCES,
        "poll": POLL,
        "open_files": {"orders": OpenFiles(312, 1024), "billing": OpenFiles(7, None)},
        "broker_limits": BrokerLimits(max_connections=3000),
    }
    return Snapshot(**(values | changes))


def _timings(connections: tuple[Connection, ...]) -> dict[ClientBroker, Timing]:
    by_pair: dict[ClientBroker, list[tuple[float, float | None]]] = {}
    unused: Counter[ClientBroker] = Counter()
    for each in connections:
        if each.idle_seconds is not None:
            times = (each.idle_seconds, each.rtt_seconds)
            by_pair.setdefault(ClientBroker.of(each), []).append(times)
            unused[ClientBroker.of(each)] += each.unused_seconds is not None
    return {
        pair: Timing(max(times)[0], min(times, key=lambda each: each[0])[1], unused[pair])
        for pair, times in by_pair.items()
    }


def _libraries(
    connections: tuple[Connection, ...],
) -> dict[ClientBroker, frozenset[ClientLibrary]]:
    return {
        ClientBroker.of(each): frozenset({ClientLibrary(each.library, "4.4.0")})
        for each in connections
        if each.library is not Library.UNKNOWN
    }


def _expectation(pair: ClientBroker) -> Expectation:
    if not pair.client_id:
        return Expectation(0, ())
    return Expectation(1, (("java-data", "a producer needs one connection to each leader"),))


def totals(pairs: dict[ClientBroker, dict[ConnectionClass, int]]) -> Totals:
    counts = (1, 0, 0, 2) + (0,) * (len(LIFETIME_BUCKETS) - 4) + (1,)
    return Totals(
        connection_seconds={
            (pair, each): 750.5 * count
            for pair, classes in pairs.items()
            for each, count in classes.items()
            if count
        },
        useful_seconds={
            pair: 750.5 * classes[ConnectionClass.DATA] for pair, classes in pairs.items()
        },
        opened={pair: sum(classes.values()) + 4 for pair, classes in pairs.items()},
        closed={(pair, by): 2 for pair in pairs for by in (ClosedBy.CLIENT, ClosedBy.BROKER)},
        lifetimes=dict.fromkeys(pairs, Histogram(counts, 90123.25)),
        outgoing_bytes=dict.fromkeys(pairs, 123_456_789_012),
        incoming_bytes=dict.fromkeys(pairs, 98_765),
        retransmits=dict.fromkeys(pairs, 2),
        connect_failures=dict.fromkeys(pairs, 1),
        probes={"10.2.0.1:9092": 17},
    )


def fleet(clients: int, brokers: int) -> Snapshot:
    """Many clients, each with one data connection and one zombie to each broker."""
    connections = []
    for client in range(clients):
        for broker in range(brokers):
            place = {
                "client_id": f"orders-producer-{client:03}",
                "broker_id": broker,
                "broker": f"10.2.0.{broker}:9092",
                "remote": Endpoint(f"10.2.0.{broker}", 9092),
            }
            number = 2 * (client * brokers + broker)
            connections.append(connection(number, **place))
            connections.append(zombie(number + 1, **place))
    return snapshot(tuple(connections))


def at(snap: Snapshot, seconds: float) -> Snapshot:
    """The same snapshot, some seconds later."""
    return replace(snap, at=snap.at + seconds, wall_time=snap.wall_time + seconds)


def page_sample() -> Snapshot:
    """A day in a pod with a tidy consumer, an untidy producer and something unknown."""
    connections = [unowned(90)]
    for broker in range(1, 4):
        place = {
            "broker_id": broker,
            "broker": f"10.2.0.{broker}:9092",
            "remote": Endpoint(f"10.2.0.{broker}", 9092),
        }
        connections.append(connection(broker, **place))
        connections.append(zombie(10 + broker, **place))
        consumer = {**place, "client_id": "billing-consumer", "client_kind": ClientKind.CONSUMER}
        connections.append(connection(20 + broker, rtt_seconds=0.0021, **consumer))
        if broker == 2:
            coordinator = {
                "connection_class": ConnectionClass.COORDINATOR,
                "role": Role.COORDINATOR,
            }
            connections.append(connection(30, **consumer, **coordinator))
            connections.append(half_closed(31, **consumer))
    return snapshot(tuple(connections))
