"""The rollups' `silver` and `hourly` from records in Parquet, by DuckDB: `RECORDS OUT THREADS`.

Written from docs/tables.md for the comparison, not from the rollups' code; only the journal's
lists of fields are shared. The sketch is left to Spark: here clients are counted one by one.
"""

from __future__ import annotations

__all__ = ["main"]

import sys
from typing import TYPE_CHECKING

import duckdb

from bench.rollups_figures import HOUR, SUMS
from spark_rollups.schemas import (
    COUNTERS,
    DIMENSIONS,
    INTERVALS,
    LIFETIME_BOUNDS_MS,
    LIFETIME_COLUMNS,
    STATES,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

DIMS = (
    "kafka_cluster, cluster, namespace, service, client_kind, library, library_version,"
    ' broker_id, broker, "class", cause'
)


def main() -> None:
    """Write `silver.parquet` and `hourly.parquet` into the folder OUT."""
    records, out, threads = sys.argv[1:]
    with duckdb.connect(config={"threads": int(threads), "memory_limit": "4GB"}) as database:
        database.execute(f"COPY ({_silver(records)}) TO '{out}/silver.parquet'")
        database.execute(f"COPY ({_hourly(f'{out}/silver.parquet')}) TO '{out}/hourly.parquet'")


def _silver(records: str) -> str:
    return f"""
    SELECT (at_ms - 1) // {HOUR} * {HOUR} AS hour, agent_id, boot_id, kind,
      CASE WHEN kind = 'agent' THEN -1 ELSE series END AS series,
      {_each('any_value("{0}") AS "{0}"', DIMENSIONS)},
      {_each("max({0}) AS {0}", (*COUNTERS, *INTERVALS))},
      {_each("max((seq << 32) + coalesce({0}::BIGINT + 1, 0)) AS state_{0}", STATES)},
      bit_or(1::BIGINT << ((at_ms - 1) // 60000 % 60)) AS minutes,
      min(since_ms) AS since_ms, min(seq) AS seq_least, max(seq) AS seq_greatest,
      min(at_ms) AS at_least, max(at_ms) AS at_greatest
    FROM read_parquet('{records}/*.parquet') WHERE reason IS NULL GROUP BY 1, 2, 3, 4, 5"""


def _hourly(silver: str) -> str:
    reached = [
        f"CASE WHEN all_ended > 0 THEN CASE {_steps(percent)} END END AS lifetime_p{percent}_ms"
        for percent in (50, 90, 99)
    ]
    return f"""
    WITH before AS (
      SELECT *, {_each("max({0}) OVER earlier AS before_{0}", (*COUNTERS, "at_greatest"))}
      FROM '{silver}' WINDOW earlier AS (PARTITION BY agent_id, boot_id, kind, series
        ORDER BY hour ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)),
    grown AS (
      SELECT * REPLACE ({_each(_GROWTH, COUNTERS)}), bit_count(minutes) AS minutes_seen,
        greatest((at_greatest - 1) // 60000 - coalesce((before_at_greatest - 1) // 60000,
          since_ms // 60000 - 1), 0) AS minutes_expected
      FROM before),
    known AS (
      SELECT hour, agent_id, boot_id, minutes_seen, minutes_expected, at_greatest,
        row_number() OVER (PARTITION BY hour, agent_id ORDER BY at_greatest DESC, boot_id) = 1
          AND {_state("final")} IS DISTINCT FROM 1 AS goes_on
      FROM grown WHERE kind = 'agent'),
    placed AS (
      SELECT *, row_number() OVER (PARTITION BY hour, goes_on ORDER BY at_greatest DESC) AS place,
        count(*) FILTER (goes_on) OVER (PARTITION BY hour) AS going_on
      FROM known),
    boots AS (
      SELECT hour, agent_id, boot_id, minutes_seen, minutes_expected,
        goes_on AND at_greatest >= max(at_greatest) FILTER (goes_on AND 2 * place >= going_on)
          OVER (PARTITION BY hour) - 300000 AS there
      FROM placed),
    series AS (
      SELECT grown.* EXCLUDE (minutes_seen, minutes_expected, connections, expected),
        boots.minutes_seen, boots.minutes_expected,
        CASE WHEN expected_ms IS NOT NULL THEN connection_ms END AS expected_known_ms,
        CASE WHEN "class" = 'unknown' THEN connection_ms
          WHEN connection_ms IS NOT NULL THEN 0 END AS unknown_ms,
        CASE WHEN connection_ms - useful_ms - unknown_ms IS NOT NULL
          THEN greatest(connection_ms - useful_ms - unknown_ms, 0) END AS waste_ms,
        closed_by_client + closed_by_broker + closed_by_reset + closed_unknown AS closed,
        CASE WHEN there THEN {_state("connections")} END AS connections,
        CASE WHEN there THEN {_state("expected")} END AS expected,
        {_state("broker_max_connections")} AS broker_max_connections
      FROM (SELECT *, 0 AS connections, 0 AS expected FROM grown) AS grown
      LEFT JOIN boots USING (hour, agent_id, boot_id)
      WHERE kind = 'connections' AND greatest({", ".join(COUNTERS)}) > 0),
    groups AS (
      SELECT hour, {DIMS}, {_each("sum({0})::BIGINT AS {0}", SUMS)},
        {_each("max({0}) AS {0}", ("idle_max_ms", "peak_opened", "broker_max_connections"))},
        sum(peak_opened)::BIGINT AS peak_opened_sum,
        [{_each("sum({0})::BIGINT", LIFETIME_COLUMNS)}] AS lifetime_buckets,
        list_sum(lifetime_buckets) AS all_ended, count(*) AS series,
        count(DISTINCT (agent_id, process, client_id)) AS clients
      FROM series GROUP BY ALL)
    SELECT *, useful_ms / nullif(useful_ms + waste_ms, 0) AS efficiency,
      opened * {HOUR} / nullif(connection_ms, 0) AS churn,
      (bytes_out + bytes_in) * {HOUR} / nullif(connection_ms, 0) AS bytes_per_connection_hour,
      minutes_seen / nullif(minutes_expected, 0) AS coverage, {", ".join(reached)}
    FROM groups"""


_GROWTH = "CASE WHEN {0} IS NOT NULL THEN greatest({0} - coalesce(before_{0}, 0), 0) END AS {0}"


def _each(form: str, names: Iterable[str]) -> str:
    return ", ".join(form.format(name) for name in names)


def _state(name: str) -> str:
    return f"nullif(grown.state_{name} & 4294967295, 0) - 1"


def _steps(percent: int) -> str:
    return " ".join(
        f"WHEN list_sum(lifetime_buckets[1:{at}]) * 100 >= all_ended * {percent} THEN {bound}"
        for at, bound in enumerate(LIFETIME_BOUNDS_MS, 1)
    )


if __name__ == "__main__":
    main()
