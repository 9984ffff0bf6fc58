"""The ways in which services hold connections: good ones, and each sin of KAFKA_CLIENTS by name.

Each function writes what one pod does from `begin` to `end`. Figures without a comment are made up;
they only have to differ.
"""

from __future__ import annotations

__all__ = ["behave"]

from typing import TYPE_CHECKING

from fleet_simulator.diary import Diary, Step, Traffic
from fleet_simulator.events import HOUR_MS, MINUTE_MS

if TYPE_CHECKING:
    from collections.abc import Callable

# Java's connections.max.idle.ms is 9 minutes; it closes one a poll, so up to half a minute late.
_IDLE_LIMIT_MS = 9 * MINUTE_MS
# A broker closes what is idle for 10 minutes.
_BROKER_LIMIT_MS = 10 * MINUTE_MS
_CONNECTED_MS = 500
_FETCHING = Traffic(118, 42)
_HALF_CLOSED = ("KafkaClientHalfClosedConnections", "", "warning")
_HEARTBEAT = Traffic(40, 6)


def behave(diary: Diary, begin: int, end: int, window: tuple[int, int]) -> None:
    """Write what a pod of this service does; what comes and goes fast only within the window."""
    _BEHAVIOURS[diary.pod.service.behaviour](diary, begin, end, window)


def _brokers(diary: Diary) -> range:
    return range(len(diary.pod.service.cluster.brokers))


def _first_brokers(diary: Diary, listed: int) -> range:
    """How many bootstrap connections are made: measured by library and version, section 1."""
    service = diary.pod.service
    if service.library == "librdkafka":
        return range(min(1, listed))
    return range(listed if service.version.startswith("2.1") else min(2, listed))


def _learn(diary: Diary, client: int, begin: int, end: int, listed: int) -> None:
    """Bootstrap as the library does; librdkafka since 2.10 closes it within two seconds."""
    service = diary.pod.service
    for broker in _first_brokers(diary, listed):
        opened = begin + diary.random.randrange(5, 60)
        if service.library == "librdkafka":
            brief = not service.version.startswith(("1.", "2.8"))
            closed = opened + 1900 if brief else end
        else:
            closed = opened + _IDLE_LIMIT_MS + diary.random.randrange(30_000)
        diary.bootstrap(client, broker, opened, min(closed, end))


def _use_all(
    diary: Diary, client: int, begin: int, end: int, traffic: Traffic, copies: int = 0
) -> None:
    """Hold one data connection to each broker, and `copies` that nobody needs."""
    for broker in _brokers(diary):
        opened = begin + _CONNECTED_MS + diary.random.randrange(300)
        diary.expect(client, broker, "data", (opened, end))
        diary.hold(client, broker, "data", (opened, end), traffic)
        for copy in range(copies):
            later = opened + 1000 * (copy + 1) + diary.random.randrange(500)
            diary.hold(client, broker, "data", (later, end), traffic, excess=True)


def _coordinate(diary: Diary, client: int, begin: int, end: int) -> None:
    broker = diary.random.choice(_brokers(diary))
    span = (begin + _CONNECTED_MS, end)
    diary.expect(client, broker, "coordinator", span)
    diary.hold(client, broker, "coordinator", span, _HEARTBEAT)


def _producer_traffic(diary: Diary) -> Traffic:
    return Traffic(diary.random.randrange(200, 90_000), diary.random.randrange(20, 400))


def _consumer_traffic(diary: Diary) -> Traffic:
    return Traffic(_FETCHING.sent, diary.random.randrange(_FETCHING.received, 120_000))


def _producer(diary: Diary, begin: int, end: int, _window: tuple[int, int]) -> None:
    client = diary.client(diary.pod.service.name, _name(diary, "producer"), "producer")
    _learn(diary, client, begin, end, listed=2)
    _use_all(diary, client, begin, end, _producer_traffic(diary))


def _consumer(diary: Diary, begin: int, end: int, _window: tuple[int, int]) -> None:
    client = diary.client(diary.pod.service.name, _name(diary, "consumer"), "consumer")
    _learn(diary, client, begin, end, listed=2)
    _use_all(diary, client, begin, end, _consumer_traffic(diary))
    _coordinate(diary, client, begin, end)


def _streams(diary: Diary, begin: int, end: int, _window: tuple[int, int]) -> None:
    name = diary.pod.service.name
    for thread in (1, 2):
        main = diary.client(name, f"{name}-StreamThread-{thread}-consumer", "consumer")
        made = diary.client(name, f"{name}-StreamThread-{thread}-producer", "producer")
        for client, traffic in ((main, _consumer_traffic(diary)), (made, _producer_traffic(diary))):
            _learn(diary, client, begin, end, listed=2)
            _use_all(diary, client, begin, end, traffic)
        _coordinate(diary, main, begin, end)
    admin = diary.client(name, f"{name}-admin", "admin")
    _learn(diary, admin, begin, end, listed=2)
    opened = begin + _CONNECTED_MS
    for broker in _brokers(diary)[:1]:
        diary.expect(admin, broker, "admin", (opened, end))
        diary.hold(admin, broker, "admin", (opened, end), Traffic(9, 30))


def _superseded(diary: Diary, begin: int, end: int, window: tuple[int, int]) -> None:
    """List every broker; each metadata refresh after an idle close opens them again: S6."""
    client = diary.client(diary.pod.service.name, _name(diary, "producer"), "producer")
    for broker in _brokers(diary):
        opened = begin + diary.random.randrange(5, 60)
        last = min(end, window[1] + HOUR_MS)
        while opened < last:
            closed = opened + _IDLE_LIMIT_MS + diary.random.randrange(30_000)
            if closed > window[0]:
                diary.bootstrap(client, broker, opened, min(closed, end))
            opened = closed + diary.random.randrange(2 * MINUTE_MS)
    _use_all(diary, client, begin, end, _producer_traffic(diary))


def _idle_off(diary: Diary, begin: int, end: int, _window: tuple[int, int]) -> None:
    """connections.max.idle.ms=-1: the first connections stay for ever: S5."""
    client = diary.client(diary.pod.service.name, _name(diary, "consumer"), "consumer")
    for broker in _brokers(diary):
        opened = begin + diary.random.randrange(5, 60)
        diary.zombie(client, broker, opened, end)
        found = (opened + 10 * MINUTE_MS, end)
        diary.find(client, broker, ("KafkaClientZombieConnections", "", "warning"), found, 1)
    _use_all(diary, client, begin, end, _consumer_traffic(diary))
    _coordinate(diary, client, begin, end)


def _per_request(diary: Diary, begin: int, end: int, window: tuple[int, int]) -> None:
    """Make a producer for each request: it connects, learns, sends one record, closes: S9."""
    client = diary.client(diary.pod.service.name, _name(diary, "producer"), "producer")
    brokers = len(_brokers(diary))
    step = diary.random.choice((6000, 10_000, 20_000))
    at = max(begin, window[0]) + diary.random.randrange(step)
    last = min(end, window[1])
    sends = Traffic(diary.random.randrange(200, 4000), 60)
    while at + step < last:
        lasts = diary.random.randrange(180, 1400)
        diary.bootstrap(client, diary.random.randrange(brokers), at, at + lasts)
        span = (at + 90, at + lasts)
        broker = diary.random.randrange(brokers)
        diary.expect(client, broker, "data", span)
        diary.hold(client, broker, "data", span, sends)
        at += step + diary.random.randrange(-300, 300)
    found = (max(begin, window[0]) + 2 * MINUTE_MS, last)
    churn = ("KafkaClientConnectionChurn", "client per request", "warning")
    diary.find(client, None, churn, found, 120_000 // step)


def _excess(diary: Diary, begin: int, end: int, _window: tuple[int, int]) -> None:
    """Several producers in one process, where one is meant: S9."""
    client = diary.client(diary.pod.service.name, _name(diary, "producer"), "producer")
    copies = diary.random.randrange(2, 7)
    _learn(diary, client, begin, end, listed=2)
    _use_all(diary, client, begin, end, _producer_traffic(diary), copies)
    found = (begin + MINUTE_MS, end)
    excess = ("KafkaClientExcessConnections", "", "warning")
    for broker in _brokers(diary):
        diary.find(client, broker, excess, found, copies)


def _stuck(diary: Diary, begin: int, end: int, window: tuple[int, int]) -> None:
    """Stop polling: brokers close, the consumer does not: S4. Later somebody restarts it."""
    client = diary.client(diary.pod.service.name, _name(diary, "consumer"), "consumer")
    traffic = _consumer_traffic(diary)
    first = max(begin + MINUTE_MS, window[0])
    stops = first + diary.random.randrange(30 * MINUTE_MS)
    resumes = stops + _BROKER_LIMIT_MS + diary.random.randrange(MINUTE_MS, 5 * HOUR_MS)
    _learn(diary, client, begin, end, listed=2)
    for broker in _brokers(diary):
        opened = begin + _CONNECTED_MS + diary.random.randrange(300)
        closed = stops + _BROKER_LIMIT_MS + diary.random.randrange(30_000)
        diary.expect(client, broker, "data", (opened, end))
        steps = [
            Step("data", opened, min(stops, end)),
            Step("data", min(stops, end), min(closed, end)),
            Step("half_closed", min(closed, end), min(resumes, end), "not_closed_after_broker"),
        ]
        diary.go_quiet(client, broker, "data", steps, "client", traffic)
        diary.find(client, broker, _HALF_CLOSED, (closed + MINUTE_MS, min(resumes, end)), 1)
        again = resumes + diary.random.randrange(20, 300)
        if again < end:
            diary.hold(client, broker, "data", (again, end), traffic)


def _probe(diary: Diary, begin: int, end: int, window: tuple[int, int]) -> None:
    """Check brokers by TCP, as no client does: S10."""
    client = diary.client(None, None, None)
    for broker in _brokers(diary):
        at = max(begin, window[0]) + diary.random.randrange(15_000)
        while at < min(end, window[1]):
            lasts = diary.random.randrange(1, 12)
            steps = [Step("probe", at, at + lasts)]
            diary.go_quiet(client, broker, "probe", steps, "client", Traffic(0, 0))
            at += 15_000
        found = (max(begin, window[0]) + 2 * MINUTE_MS, min(end, window[1] + HOUR_MS))
        diary.find(client, broker, ("KafkaClientConnectionChurn", "probe", "info"), found, 8)


def _stale(diary: Diary, begin: int, end: int, window: tuple[int, int]) -> None:
    """Keep talking to the old address of a broker that has moved: S11."""
    client = diary.client(diary.pod.service.name, _name(diary, "producer"), "producer")
    _learn(diary, client, begin, end, listed=2)
    moved = max(begin, window[0]) + diary.random.randrange(10 * MINUTE_MS, 50 * MINUTE_MS)
    traffic = _producer_traffic(diary)
    for broker in _brokers(diary):
        opened = begin + _CONNECTED_MS + diary.random.randrange(300)
        if broker or moved >= end:
            diary.expect(client, broker, "data", (opened, end))
            diary.hold(client, broker, "data", (opened, end), traffic)
            continue
        gone = min(end, moved + diary.random.randrange(5, 90) * MINUTE_MS)
        diary.expect(client, broker, "data", (opened, end))
        steps = [Step("data", opened, moved), Step("stale", moved, gone, "broker_moved")]
        diary.go_quiet(client, broker, "data", steps, "reset", traffic)
        diary.find(client, broker, ("KafkaClientStaleEndpoint", "", "warning"), (moved, gone), 1)
        if gone < end:
            diary.hold(client, broker, "data", (gone + 250, end), traffic)


def _ghost(diary: Diary, begin: int, end: int, window: tuple[int, int]) -> None:
    """Never close what the network has reset: the descriptors leak."""
    client = diary.client(diary.pod.service.name, _name(diary, "consumer"), "consumer")
    _use_all(diary, client, begin, end, _consumer_traffic(diary))
    _coordinate(diary, client, begin, end)
    for _ in range(3):
        opened = max(begin, window[0]) + diary.random.randrange(HOUR_MS)
        reset = opened + 30_000
        steps = [Step("data", opened, reset), Step("ghost", reset, end, "descriptor_leak")]
        broker = diary.random.choice(_brokers(diary))
        diary.go_quiet(client, broker, "data", steps, "unknown", _FETCHING)
        diary.find(client, broker, ("KafkaClientGhostDescriptors", "", "warning"), (reset, end), 1)


def _name(diary: Diary, kind: str) -> str:
    return f"{diary.pod.service.name}-{kind}"


_BEHAVIOURS: dict[str, Callable[[Diary, int, int, tuple[int, int]], None]] = {
    "producer": _producer,
    "consumer": _consumer,
    "streams": _streams,
    "superseded": _superseded,
    "idle_off": _idle_off,
    "per_request": _per_request,
    "excess": _excess,
    "stuck": _stuck,
    "probe": _probe,
    # A storm is a producer that restarts too often and all at once: see `lives`.
    "storm": _producer,
    "stale": _stale,
    "ghost": _ghost,
}
