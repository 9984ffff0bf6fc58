"""The insight tables on one small day that anybody can work out by hand."""

from __future__ import annotations

import json
from datetime import date

import pytest

from tests.spark.journals import START_MS, WHERE, Agent

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def one_hour():
    """`orders` uses one connection well; `legacy` has one in use, three zombies and a spent one."""
    good = Agent()
    good.series(1)
    bad = Agent(agent_id="agent-2", where={**WHERE, "service": "legacy", "pod": "legacy-1"})
    old = {"client_id": "old", "library_version": "2.1.0"}
    bad.series(1, **old)
    bad.series(2, **old, **{"class": "zombie", "role": "bootstrap", "cause": "idle_closing_off"})
    bad.series(
        3, **old, **{"class": "bootstrap", "role": "bootstrap", "cause": "superseded_bootstrap"}
    )
    bad.series(4, **old, **{"class": "unknown", "role": "unknown"})
    bad.state[2] |= {"connections": 3, "peak_connections": 3, "expected": 0}
    bad.state[3] |= {"peak_connections": 2, "expected": 0, "peak_opened": 2}
    bad.state[4] |= {"expected": None, "peak_opened": 1}
    for agent in (good, bad):
        for state in agent.state.values():
            state["broker_max_connections"] = 5
        for _ in range(60):
            agent.grow(1, connection_ms=MINUTE, useful_ms=MINUTE, expected_ms=MINUTE)
            if agent is bad:
                agent.grow(2, connection_ms=3 * MINUTE)
                agent.grow(3, opened=int(agent.seq % 2))
                agent.grow(3, connection_ms=MINUTE, useful_ms=MINUTE // 2)
                agent.grow(4, connection_ms=MINUTE)
            agent.write()
    return good.lines() + bad.lines()


@pytest.fixture(scope="module")
def day(spark):
    """Return (hourly, coverage, daily, brokers) of that hour, cut off from what made them."""
    from spark_rollups.transforms.brokers import brokers
    from spark_rollups.transforms.coverage import coverage
    from spark_rollups.transforms.daily import daily
    from spark_rollups.transforms.hourly import hourly, series_of
    from spark_rollups.transforms.increments import increments
    from spark_rollups.transforms.lattice import good_rows, reduce_records
    from spark_rollups.transforms.parse import parse

    texts = spark.createDataFrame([(line, "") for line in one_hour()], "raw string, source string")
    grown = increments(good_rows(reduce_records(parse(texts)))).localCheckpoint()
    series = series_of(grown).localCheckpoint()
    hours = hourly(series).localCheckpoint()
    covered, loads = coverage(grown).localCheckpoint(), brokers(series).localCheckpoint()
    return hours, covered, daily(hours).localCheckpoint(), loads


def rows(frame, *columns):
    from pyspark.sql import functions as F

    texts = frame.select(F.to_json(F.struct(*columns), {"ignoreNullFields": "false"}).alias("row"))
    found = [tuple(json.loads(row["row"]).values()) for row in texts.collect()]
    return sorted(found, key=str)


def test_unknown_time_is_neither_waste_nor_use(day):
    columns = ("service", "class", "connection_ms", "useful_ms", "waste_ms", "unknown_ms")
    assert rows(day[0], *columns, "efficiency", "connections", "expected") == [
        ("legacy", "bootstrap", HOUR, HOUR // 2, HOUR // 2, 0, 0.5, 1, 0),
        ("legacy", "data", HOUR, HOUR, 0, 0, 1.0, 1, 1),
        ("legacy", "unknown", HOUR, 0, 0, HOUR, None, 1, None),
        ("legacy", "zombie", 3 * HOUR, 0, 3 * HOUR, 0, 0.0, 3, 0),
        ("orders", "data", HOUR, HOUR, 0, 0, 1.0, 1, 1),
    ]


def agent_of(name, until, *, offset=0, final=False):
    """An agent with one connection, heard up to a minute by its own clock."""
    agent = Agent(
        agent_id=name, since_ms=START_MS + offset * MINUTE, where={**WHERE, "service": name}
    )
    agent.series(1)
    for minute in range(offset, until):
        agent.grow(1, connection_ms=MINUTE)
        agent.write(final=final and minute == until - 1)
    return agent.lines()


def test_who_is_still_there_is_not_for_the_fastest_clock_to_say(spark):
    """Ten past: two are on time, one's clock is 20 minutes ahead, one was killed, one ended."""
    from spark_rollups.transforms.hourly import hourly, series_of
    from spark_rollups.transforms.increments import increments
    from spark_rollups.transforms.lattice import good_rows, reduce_records
    from spark_rollups.transforms.parse import parse

    lines = [
        *agent_of("one", 10),
        *agent_of("other", 10),
        *agent_of("fast", 30, offset=20),
        *agent_of("killed", 4),
        *agent_of("ended", 10, final=True),
        # An hour later, one of two was killed: the one that goes on says what time it is.
        *(line for line in agent_of("one", 90) if json.loads(line)["at_ms"] > START_MS + HOUR),
        *(line for line in agent_of("other", 70) if json.loads(line)["at_ms"] > START_MS + HOUR),
    ]
    texts = spark.createDataFrame([(line, "") for line in lines], "raw string, source string")
    hours = hourly(series_of(increments(good_rows(reduce_records(parse(texts))))))
    found = rows(
        hours.selectExpr(f"unix_millis(hour) - {START_MS} AS at", "service", "connections"), "*"
    )
    assert found == [
        (0, "ended", None),
        (0, "fast", 1),
        (0, "killed", None),
        (0, "one", 1),
        (0, "other", 1),
        (HOUR, "one", 1),
        (HOUR, "other", None),
    ]


def test_who_wastes_most_and_why(day):
    from spark_rollups.transforms.top_wasters import top_wasters

    columns = ("rank", "service", "waste_ms", "waste_share", "worst_class", "worst_cause")
    found = rows(top_wasters(day[2]), *columns, "efficiency")
    assert found == [
        (1, "legacy", 7 * HOUR // 2, 1.0, "zombie", "idle_closing_off", 1.5 / 5),
    ]


def test_what_each_fix_would_save_of_the_limit(day):
    from pyspark.sql import functions as F

    from spark_rollups.transforms.savings import savings

    columns = ("fix", "connection_ms", "connections_saved", "max_connections", "share_of_limit")
    # Only who wastes nothing knows the limit.
    known = F.when(F.col("class") == "data", F.col("broker_max_connections"))
    days = day[2].withColumn("broker_max_connections", known)
    assert rows(savings(days), *columns, "clients") == [
        ("fewer_bootstrap_servers", HOUR // 2, 0.5 / 24, 5, 0.5 / 24 / 5, 1),
        ("idle_closing_on", 3 * HOUR, 3 / 24, 5, 3 / 24 / 5, 1),
    ]


def test_each_fix_has_what_it_would_save(spark, day):
    """Of each class one connection, wasted for the hour; 12 were opened, and 7 lived 10 s or less."""
    from pyspark.sql import functions as F

    from spark_rollups.transforms.savings import savings

    of_classes = {
        "excess": "one_shared_client",
        "half_closed": "poll_or_close",
        "ghost": "close_on_error",
        "stale": "resolve_again",
        "probe": "probe_less",
        "zombie": "idle_closing_on",
    }
    like = day[2].where("class = 'zombie'").drop("class", "waste_ms", "opened", "lifetime_buckets")
    classes = spark.createDataFrame([(name,) for name in of_classes], "class string")
    figures = {
        "waste_ms": F.lit(HOUR).cast("decimal(38,0)"),
        "opened": F.lit(12).cast("decimal(38,0)"),
        "lifetime_buckets": F.expr(
            "transform(array(1, 2, 0, 4, 5, 0, 0, 0, 0, 0, 0, 0), x -> CAST(x AS DECIMAL(38,0)))"
        ),
    }
    columns = ("fix", "connection_ms", "opened_saved", "clients", "share_of_limit")
    share = 1 / 24 / 5
    assert rows(savings(like.crossJoin(classes).withColumns(figures)), *columns) == sorted(
        [
            ("client_kept", 0, 7 * (len(of_classes) - 1), 1, 0.0),
            ("probe_less", HOUR, 12, 1, share),
            *((fix, HOUR, None, 1, share) for fix in of_classes.values() if fix != "probe_less"),
        ],
        key=str,
    )


@pytest.mark.parametrize(
    ("library", "version", "fix", "short"),
    [
        pytest.param("java", "2.1.0", "fewer_bootstrap_servers", 7, id="java"),
        pytest.param("librdkafka", "2.8.0", "update_librdkafka", 7, id="leaves it open"),
        pytest.param("librdkafka", "2.10.0", None, None, id="closes it"),
        pytest.param("librdkafka", "2.16.0", None, None, id="in 2 seconds"),
        pytest.param("librdkafka", "1.9.2", "update_librdkafka", 7, id="older"),
        pytest.param("librdkafka", None, None, None, id="of no version"),
    ],
)
def test_advice_on_bootstrap_connections_is_the_librarys(day, library, version, fix, short):
    """librdkafka 2.8 was told to list two servers, and 2.16 to keep its client between requests."""
    from pyspark.sql import functions as F

    from spark_rollups.transforms.savings import savings

    figures = {
        "library": F.lit(library),
        "library_version": F.lit(version).cast("string"),
        "lifetime_buckets": F.expr(
            "transform(array(1, 2, 0, 4, 5, 0, 0, 0, 0, 0, 0, 0), x -> CAST(x AS DECIMAL(38,0)))"
        ),
    }
    found = savings(day[2].where("class = 'bootstrap'").withColumns(figures))
    expected = [(fix, HOUR // 2, None)] if fix else []
    expected += [("client_kept", 0, short)] if short else []
    assert rows(found, "fix", "connection_ms", "opened_saved") == sorted(expected, key=str)


def test_waste_by_version(day):
    from spark_rollups.transforms.version_cohorts import version_cohorts

    columns = ("library_version", "clients", "waste_ms", "waste_connections_per_client")
    assert rows(version_cohorts(day[2]), *columns, "bootstrap_waste_ms") == [
        ("2.1.0", 1, 7 * HOUR // 2, 3.5 / 24, HOUR // 2),
        ("4.4.0", 1, 0, 0.0, None),
    ]


def test_a_restart_of_everything_would_reach_the_limit(day):
    """Two connections are expected; three at most were once open to learn the brokers."""
    from spark_rollups.transforms.forecast import forecast

    columns = ("connections", "expected", "bootstrap", "forecast_peak", "max_connections")
    found = rows(forecast(day[0], day[3], day[2]), *columns, "peak_connections", "exceeds")
    assert found == [(7, 2, 3, 5, 5, 8, False)]


def test_a_broker_is_forecast_from_the_last_hour_in_which_most_of_its_series_were_known(day):
    """Broker 1 in an hour of its own first journals, broker 2 only in the hour before."""
    from pyspark.sql import functions as F

    from spark_rollups.transforms.forecast import forecast

    other = {"broker_id": F.lit(2), "broker": F.lit("b2")}
    before = day[0].unionByName(day[0].withColumns(other))
    loads = day[3].unionByName(day[3].withColumns(other))
    later = day[3].withColumn("hour", F.col("hour") + F.expr("INTERVAL 1 HOUR"))
    few = later.withColumns({"series": F.lit(1), "expected": F.col("expected") * 9})
    columns = ("broker_id", "unix_seconds(as_of) % 86400 div 3600 AS at", "expected")
    found = forecast(before, loads.unionByName(few), day[2]).selectExpr(*columns)
    assert rows(found, "*") == [(1, 8, 2), (2, 8, 2)]
    half = few.withColumn("series", F.lit(3))
    found = forecast(before, loads.unionByName(half), day[2]).selectExpr(*columns)
    assert rows(found, "*") == [(1, 9, 18), (2, 8, 2)]


def loads_of(spark, *agents):
    """Return the table `brokers` of agents of one series each: broker id, address, peaks by minute."""
    from spark_rollups.transforms.brokers import brokers
    from spark_rollups.transforms.hourly import series_of
    from spark_rollups.transforms.increments import increments
    from spark_rollups.transforms.lattice import good_rows, reduce_records
    from spark_rollups.transforms.parse import parse

    lines = []
    for number, (broker_id, address, limit, peaks) in enumerate(agents):
        agent = Agent(agent_id=f"agent-{number}")
        agent.series(1, broker_id=broker_id, broker=address)
        for peak in peaks:
            agent.state[1] |= {
                "peak_connections": peak, "connections": peak, "broker_max_connections": limit
            }  # fmt: skip
            agent.grow(1, connection_ms=MINUTE)
            agent.write()
        lines += agent.lines()
    texts = spark.createDataFrame([(line, "") for line in lines], "raw string, source string")
    return brokers(series_of(increments(good_rows(reduce_records(parse(texts))))))


def peaks_of(frame):
    from spark_rollups.transforms.brokers import by_broker, identified, known_ids, peak

    found = by_broker(identified(frame, known_ids(frame)), ("hour",)).withColumn("peak", peak())
    return rows(found, "broker_id", "unnamed", "peak", "max_connections")


def test_what_was_never_there_at_once_is_not_added_up(spark):
    """Each agent held 5 for a minute, one after the other: that is 7 at most, and was called 15."""
    agents = [(1, "a:9092", 10, [5 if at == turn else 1 for at in range(3)]) for turn in range(3)]
    assert peaks_of(loads_of(spark, *agents)) == [(1, None, 7, 10)]


def test_a_broker_is_one_whatever_it_is_called(spark):
    """Nine connections at a limit of five were two brokers, or three, and none over it."""
    agents = (
        (1, "a:9092", 5, [4]),
        (1, "10.0.0.1:9093", None, [2]),
        (None, "a:9092", None, [3]),
        (None, "lb:9092", None, [1]),
        (2, "shared:9092", None, [1]),
        (3, "shared:9092", None, [1]),
        (None, "shared:9092", None, [1]),
    )
    assert peaks_of(loads_of(spark, *agents)) == [
        (1, None, 9, 5), (2, None, 1, None), (3, None, 1, None),
        (None, "lb:9092", 1, None), (None, "shared:9092", 1, None),
    ]  # fmt: skip


def test_what_the_broker_has_closed_is_not_on_it(day):
    from pyspark.sql import functions as F

    from spark_rollups.transforms.brokers import brokers

    series = day[0].select("hour", "kafka_cluster", "broker_id", "broker", "class").withColumns(
        {
            "connections": F.lit(3), "expected": F.lit(1), "broker_max_connections": F.lit(5),
            "minute_peaks": F.array_repeat(F.lit(3).cast("long"), 60),
        }
    )  # fmt: skip
    gone = series.where("class = 'data'").withColumn("class", F.lit("half_closed"))
    here = rows(brokers(series), "connections", "series")
    assert rows(brokers(series.unionByName(gone)), "connections", "series") == here == [(15, 5)]


def test_peaks_against_the_steady_state(day):
    from spark_rollups.transforms.surge import surge

    columns = ("service", "steady_connections", "peak_connections", "surge_ratio", "peak_opened")
    assert rows(surge(day[0], day[1]), *columns, "boots_started") == [
        ("legacy", 6.0, 7, 7 / 6, 2, 1),
        ("orders", 1.0, 1, 1.0, 0, 1),
    ]


def test_openings_within_a_second_against_their_mean(day):
    """Thirty openings in the hour, five of them perhaps at once; `orders` opened nothing."""
    from spark_rollups.transforms.surge import surge

    columns = ("service", "opened", "peak_opened", "peak_opened_sum", "opened_ratio")
    assert rows(surge(day[0], day[1]), *columns) == [
        ("legacy", 30, 2, 3, 360.0),
        ("orders", 0, 0, 0, None),
    ]


def test_a_week_against_the_week_before(day):
    from pyspark.sql import functions as F

    from spark_rollups.transforms.week_over_week import week_over_week

    today = day[2]
    before = today.withColumns(
        {"day": F.date_sub("day", 7), "waste_ms": F.col("waste_ms") * 2}
    ).unionByName(today.withColumn("day", F.date_sub("day", 14)))
    columns = ("service", "connection_ms", "waste_ms", "previous_waste_ms", "previous_efficiency")
    found = rows(
        week_over_week(today.unionByName(before), date(2026, 1, 5)), *columns, "efficiency_change"
    )
    assert found == [
        ("legacy", 6 * HOUR, 7 * HOUR // 2, 7 * HOUR, 1.5 / 8.5, 1.5 / 5 - 1.5 / 8.5),
        ("orders", HOUR, 0, 0, 1.0, 0.0),
    ]


@pytest.mark.parametrize(
    ("buckets", "expected"),
    [
        pytest.param([0] * 12, (None, None, None), id="none ended"),
        pytest.param([1] + [0] * 11, (100, 100, 100), id="one"),
        pytest.param(
            [50, 40, 0, 0, 9, 0, 0, 0, 0, 0, 0, 1], (100, 1000, 30_000), id="just reached"
        ),
        pytest.param([0] * 11 + [3], (None, None, None), id="longer than any bound"),
        pytest.param([49, 51] + [0] * 10, (1000, 1000, 1000), id="just not reached"),
    ],
)
def test_quantiles_are_bounds(spark, buckets, expected):
    from spark_rollups.transforms.measures import quantiles

    frame = spark.createDataFrame([(buckets,)], "lifetime_buckets array<bigint>")
    assert tuple(frame.select(quantiles(50), quantiles(90), quantiles(99)).first()) == expected
