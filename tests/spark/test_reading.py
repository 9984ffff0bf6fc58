"""A report of a large fleet: nothing is cut before it is added up, and every cut says so."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from spark_rollups.errors import UsageError

HOURS, REASONS, BROKERS, SERVICES = 14 * 24, 60, 200, 300
HOUR_MS = 3_600_000
FIXES = ("idle_closing_on", "client_kept", "probe_less")
LAST_DAY = "DATE '2026-01-18' AS day"
WHO = "'east' AS cluster, 'shop' AS namespace"


class Frames:
    """Tables that nobody has written: what a report reads, and no more."""

    def __init__(self, spark, frames):
        self.spark = spark
        self._frames = frames

    def exists(self, name):
        return name in self._frames

    def read(self, name):
        return self._frames[name]

    def path(self, name):
        return f"frames/{name}"


def frames_of(spark):
    """Return two weeks with 60 reasons in each hour, and a last hour of 200 brokers x 300 services."""
    hour = "TIMESTAMP '2026-01-05 00:00:00+00:00' + make_interval(0, 0, 0, 0, CAST({} AS INT))"
    hours = spark.range(HOURS).selectExpr(f"{hour.format('id')} AS hour", "id AS number")
    reasons = spark.range(REASONS).selectExpr("id AS reason")
    pairs = (
        spark.range(BROKERS)
        .selectExpr("CAST(id AS INT) AS broker_id", "concat('b', id) AS broker")
        .crossJoin(spark.range(SERVICES).selectExpr("concat('s', id) AS service", "id AS n"))
    )
    # The reason of the last number wastes most: an alphabetical or early cut would lose it.
    by_reason = hours.crossJoin(reasons).selectExpr(
        "hour", "'main' AS kafka_cluster", WHO.split(", ", maxsplit=1)[0], WHO.split(", ")[1], "'s0' AS service",
        "0 AS broker_id", "'b0' AS broker", "'excess' AS class",
        "concat('reason-', lpad(reason, 2, '0')) AS cause",
        f"CAST({HOUR_MS} AS DECIMAL(38,0)) * (reason + 1) AS connection_ms", "CAST(0 AS DECIMAL(38,0)) AS useful_ms",
        f"CAST({HOUR_MS} AS DECIMAL(38,0)) * (reason + 1) AS waste_ms", "CAST(0 AS DECIMAL(38,0)) AS unknown_ms",
        "CAST(1 AS DECIMAL(38,0)) AS opened", "CAST(1 AS DECIMAL(38,0)) AS peak_connections", "1L AS peak_opened",
        "CAST(0 AS DECIMAL(38,0)) AS peak_opened_sum",
    )  # fmt: skip
    by_pair = pairs.selectExpr(
        f"{hour.format(HOURS - 1)} AS hour", "'main' AS kafka_cluster", WHO.split(", ", maxsplit=1)[0],
        WHO.split(", ")[1], "service", "broker_id", "broker", "'data' AS class",
        "CAST(NULL AS STRING) AS cause", f"CAST({2 * HOUR_MS} AS DECIMAL(38,0)) AS connection_ms",
        f"CAST({2 * HOUR_MS} AS DECIMAL(38,0)) AS useful_ms", "CAST(0 AS DECIMAL(38,0)) AS waste_ms",
        "CAST(0 AS DECIMAL(38,0)) AS unknown_ms", "CAST(36 AS DECIMAL(38,0)) AS opened",
        "CAST(n + broker_id AS DECIMAL(38,0)) AS peak_connections", "n AS peak_opened",
        "CAST(n AS DECIMAL(38,0)) AS peak_opened_sum",
    )  # fmt: skip
    brokers = spark.range(BROKERS).selectExpr(
        LAST_DAY, "'main' AS kafka_cluster", "CAST(id AS INT) AS broker_id",
        "concat('b', id) AS broker", "CAST(7 AS DECIMAL(38,0)) AS connections", "CAST(9 AS DECIMAL(38,0)) AS forecast_peak",
        "100 AS max_connections", "0.09D AS share_of_limit", "id",
    )  # fmt: skip
    fixes = spark.createDataFrame([(fix,) for fix in FIXES], "fix string")
    # Half of each one's time is waste; a week ago it was 80%, 30% and 50.1%.
    before = "(CASE WHEN id < 130 THEN 800 WHEN id < 210 THEN 300 ELSE 501 END)"
    by_service = spark.range(SERVICES).selectExpr("concat('s', id) AS service", "id")
    weeks = [
        by_service.selectExpr(
            f"DATE '{day}' AS day", *WHO.split(", "), "service", "'producer' AS client_kind", "'java' AS library",
            "'4.4.0' AS library_version", "'excess' AS class", "CAST(NULL AS STRING) AS cause",
            f"CAST({waste} AS DECIMAL(38,0)) AS waste_ms", f"CAST({useful} AS DECIMAL(38,0)) AS useful_ms",
            "CAST(0 AS DECIMAL(38,0)) AS connection_ms", "CAST(0 AS DECIMAL(38,0)) AS unknown_ms",
            "CAST(0 AS DECIMAL(38,0)) AS opened",
        )
        for day, waste, useful in (
            ("2026-01-18", f"{24 * HOUR_MS} * (id + 1)", f"{24 * HOUR_MS} * (id + 1)"),
            ("2026-01-11", before, f"1000 - {before}"),
        )
    ]  # fmt: skip
    services = weeks[0].unionByName(weeks[1])
    ended = "(SELECT hll_sketch_agg(id) AS clients_sketch FROM range(10))"
    return {
        "coverage": hours.selectExpr(
            "hour", *WHO.split(", "), "'s0' AS service", "10L AS agents", "10L AS agents_at_end", "1L AS boots_started",
            f"CAST({10 * HOUR_MS} AS DECIMAL(38,0)) AS covered_ms", "CAST(600 AS DECIMAL(38,0)) AS minutes_seen",
            "CAST(600 AS DECIMAL(38,0)) AS minutes_expected",
        ),
        "hourly": by_reason.unionByName(by_pair),
        # Two for each service in one minute; a third of them were there in another one.
        "brokers": brokers.selectExpr(
            f"{hour.format(HOURS - 1)} AS hour", "kafka_cluster", "broker_id", "broker", "connections",
            "connections AS expected", "max_connections", "1L AS series",
            f"transform(sequence(1, 60), n -> IF(n = 7, {2 * SERVICES}L, 1L)) AS minute_connections",
        ),
        "daily": services.crossJoin(spark.sql(f"SELECT * FROM {ended}")),
        "savings": brokers.crossJoin(fixes).selectExpr(
            "*", f"CAST(IF(fix = 'idle_closing_on', {24 * HOUR_MS}, 0) AS DECIMAL(38,0)) AS connection_ms",
            "CAST(IF(fix = 'idle_closing_on', 0, 24) AS DECIMAL(38,0)) AS opened_saved",
        ),
        "forecast": brokers,
        "findings": hours.crossJoin(reasons).selectExpr(
            "hour", *WHO.split(", "), "'s0' AS service", "'warning' AS severity",
            "concat('finding-', reason % 3) AS finding",
            "concat('cause-', reason, '-', number % 2) AS cause", "CAST(1 AS DECIMAL(38,0)) AS active_ms", "CAST(1 AS DECIMAL(38,0)) AS begun",
        ),
        "quarantine": spark.range(990).selectExpr("concat('reason ', id % 45) AS reason", "10L AS raw_bytes"),
    }  # fmt: skip


@pytest.fixture(scope="module")
def large(spark):
    from spark_rollups.report.reading import read_digest

    return read_digest(Frames(spark, frames_of(spark)), days=28, until=None)


def test_two_weeks_are_there_to_the_last_hour(large):
    assert len(large.hours) == large.hours_in_period == HOURS
    assert large.end == datetime(2026, 1, 19, tzinfo=UTC)
    by_hour = REASONS * (REASONS + 1) // 2
    assert {hour.waste_ms for hour in large.hours} == {by_hour * HOUR_MS}
    in_hour = {}
    for waste in large.waste:
        in_hour[waste.at] = in_hour.get(waste.at, 0) + waste.waste_ms
    assert in_hour == {hour.at: hour.waste_ms for hour in large.hours}
    named = {waste.reason for waste in large.waste}
    assert named == {"other", *(f"reason-{number}" for number in range(20, 60))}
    assert large.lengths.reasons == REASONS


def test_sums_are_over_all_brokers_and_services(large):
    assert {each.fix: (each.connections, each.opened) for each in large.savings} == {
        "idle_closing_on": (BROKERS, 0.0),
        "client_kept": (0.0, BROKERS),
        "probe_less": (0.0, BROKERS),
    }
    assert large.savings[0].share == pytest.approx(1 / 100)
    assert len(large.brokers) == BROKERS
    assert {load.peak for load in large.brokers} == {2 * SERVICES}
    # Of those that are nearest to their limit, hour by hour; only the last hour has rows here.
    courses = [load.by_hour for load in large.brokers]
    assert courses[:24] == [(*[0] * (HOURS - 1), 2 * SERVICES)] * 24
    assert set(courses[24:]) == {()}
    # 20 that waste most, and one for all others.
    assert len(large.services_waste) == 21
    assert sum(each.waste for each in large.services_waste) == SERVICES * (SERVICES + 1) / 2
    assert large.services_waste[0].service == f"s{SERVICES - 1}"
    assert large.lengths.services == SERVICES
    assert large.weeks == (130, 80, 90)
    assert len(large.moved) == 100
    assert large.clients == 10


def test_of_what_is_shown_in_part_the_greatest_are_shown_and_all_are_counted(large):
    surged = sum(n + broker >= 3 for n in range(SERVICES) for broker in range(BROKERS))
    assert large.lengths.surges == surged
    assert [each.peak for each in large.surges][:3] == [498, 497, 497]
    assert large.lengths.openings == (SERVICES - 10) * BROKERS
    assert [(each.peak, each.mean) for each in large.openings] == [(299, 0.01)] * 10
    assert (len(large.findings), large.lengths.findings) == (100, 120)
    assert (len(large.quarantine), large.lengths.quarantine) == (41, 45)
    assert sum(each.texts for each in large.quarantine) == 990
    assert sum(each.size for each in large.quarantine) == 9900


def test_one_clock_that_is_years_ahead_does_not_end_the_period(spark):
    from spark_rollups.report.reading import read_digest

    coverage = frames_of(spark)["coverage"]
    fast = coverage.limit(1).selectExpr(
        "TIMESTAMP '2090-01-01 00:00:00+00:00' AS hour", *coverage.columns[1:]
    )
    tables = Frames(spark, {"coverage": coverage.unionByName(fast)})
    now = datetime(2026, 1, 19, 0, 10, tzinfo=UTC)
    assert read_digest(tables, days=1, until=None, now=now).end == datetime(2026, 1, 19, tzinfo=UTC)
    with pytest.raises(UsageError, match="see --until"):
        read_digest(tables, days=1, until=None, now=datetime(2025, 1, 1, tzinfo=UTC))


def test_tables_of_before_an_upgrade_can_be_read(spark):
    from spark_rollups.report.reading import read_digest

    frames = frames_of(spark)
    older = {
        "coverage": frames["coverage"].drop("agents_at_end"),
        "hourly": frames["hourly"].drop("peak_opened_sum"),
    }
    digest = read_digest(Frames(spark, older), days=1, until=None)
    assert digest.end == datetime(2026, 1, 18, 23, tzinfo=UTC)
    assert digest.openings == ()
