"""A digest to render: a small fleet with every sin, names of hostile clients included."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

from spark_rollups.report.digest import (
    BrokerLoad,
    Cohort,
    Digest,
    Found,
    Hour,
    Opening,
    Quarantined,
    Saving,
    ServiceWaste,
    Surge,
    Waste,
    Waster,
    Week,
    Weeks,
)

HOUR_MS = 3_600_000
BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
REASONS = {
    "superseded_bootstrap": 46, "idle_closing_off": 61, "excess_instances": 38,
    "not_closed_after_broker": 17, "broker_moved": 4, "descriptor_leak": 3, "probe": 0.2,
}  # fmt: skip
SERVICES = (
    ("checkout", "orders-worker"), ("payments", "fraud-worker"), ("catalogue", "prices-writer"),
    ("analytics", "events-aggregator"), ("search", "stock-worker"), ("identity", "sessions-writer"),
)  # fmt: skip


def digest(*, hours=48, names=SERVICES, quarantine=True, missing=(30, 31, 32)):
    random = Random(7)
    moments = [BEGIN + timedelta(hours=n) for n in range(hours) if n not in missing]
    made_hours, made_waste = [], []
    for number, at in enumerate(moments):
        wave = 1 + 0.15 * random.random() + (0.9 if number == 20 else 0)
        wasted = {reason: int(n * wave * HOUR_MS) for reason, n in REASONS.items()}
        made_waste += [Waste(at, reason, spent) for reason, spent in wasted.items()]
        useful = int(330 * (1 + 0.1 * random.random()) * HOUR_MS)
        total = sum(wasted.values())
        seen = 4800 - (900 if number == 11 else 0)
        opened = random.randrange(900, 1400) + (6000 if number == 20 else 0)
        made_hours.append(
            Hour(
                at, useful + total + 5 * HOUR_MS, useful, total, 5 * HOUR_MS, opened, 80, seen, 4800
            )
        )
    return Digest(
        begin=BEGIN,
        end=BEGIN + timedelta(hours=hours),
        day=BEGIN + timedelta(days=(hours - 1) // 24),
        hours=tuple(made_hours),
        waste=tuple(made_waste),
        services=31,
        clients=142,
        wasters=tuple(
            Waster("prod-eu", namespace, service, "consumer", "java", "2.1.0", 40.0 - n, 22.5 - 3 * n, 0.43 + n / 20, 0.3 / (n + 1), reason,
                   tuple(None if at in missing else 20.0 + at % (n + 3) for at in range(hours)))
            for n, ((namespace, service), reason) in enumerate(zip(names, REASONS, strict=False))
        ),
        services_waste=tuple(
            ServiceWaste("prod-eu", namespace, service, 22.5 - 3 * n) for n, (namespace, service) in enumerate(names)
        ),
        savings=tuple(
            Saving(fix, 2 * saved, 6 * opened, "core", 3, saved / 3 / 150)
            for fix, saved, opened in (
                ("idle_closing_on", 61.0, 0.0), ("fewer_bootstrap_servers", 46.0, 310.0),
                ("one_shared_client", 38.0, 4.0), ("poll_or_close", 17.0, 2.0), ("resolve_again", 4.0, 0.2),
                ("close_on_error", 3.0, 0.1), ("client_kept", 0.01, 2100.0), ("probe_less", 0.0, 960.0),
            )
        ),
        cohorts=tuple(
            Cohort(library, version, kind, clients, clients * 3.5, clients * waste, 3.5 / (3.5 + waste))
            for library, version, kind, clients, waste in (
                ("java", "2.1.0", "consumer", 14, 2.7), ("java", "2.8.2", "producer", 21, 1.4),
                ("java", "3.9.2", "consumer", 40, 0.8), ("java", "4.4.0", "consumer", 33, 0.4),
                ("librdkafka", "1.9.2", "producer", 6, 0.9), ("librdkafka", "2.16.0", "consumer", 28, 0.02),
            )
        ),
        surges=tuple(
            Surge(BEGIN + timedelta(hours=20), "core", "prod-eu", namespace, service, 1 + n % 3, 8.0 + n, 31 - 3 * n, 400, 12)
            for n, (namespace, service) in enumerate(names)
        ),
        openings=tuple(
            Opening(BEGIN + timedelta(hours=20), "core", "prod-eu", namespace, service, 1 + n % 3, 0.11, 90 - 7 * n, 12)
            for n, (namespace, service) in enumerate(names)
        ),
        brokers=tuple(
            BrokerLoad(cluster, broker, f"10.9.0.{broker}:9092", 70 + 9 * broker, 84 + 11 * broker, 96 + 14 * broker,
                       (130 if broker == 3 else 150) if cluster == "core" else None,
                       tuple(None if n in missing else 60 + n % 20 for n in range(hours)))
            for cluster in ("core", "edge")
            for broker in (1, 2, 3)
        ),
        moved=tuple(
            Week("prod-eu", namespace, service, min(0.99, 0.62 + 0.06 * n), max(0.02, 0.88 - 0.1 * n))
            for n, (namespace, service) in enumerate(names)
        ),
        weeks=Weeks(4, 2, 25),
        findings=(
            Found("KafkaClientZombieConnections", None, "warning", 4, 400 * HOUR_MS, 9),
            Found("KafkaClientConnectionChurn", "client per request", "warning", 2, 92 * HOUR_MS, 2),
        ),
        quarantine=(Quarantined("not JSON", 12, 4000), Quarantined("schema_version 2", 3, 3300)) if quarantine else (),
    )  # fmt: skip


def empty_digest():
    """A fleet that has written nothing yet."""
    return Digest(
        begin=BEGIN, end=BEGIN + timedelta(hours=1), day=BEGIN, hours=(), waste=(), services=0, clients=0,
        wasters=(), services_waste=(), savings=(), cohorts=(), surges=(), openings=(), brokers=(), moved=(),
        weeks=Weeks(), findings=(), quarantine=(),
    )  # fmt: skip
