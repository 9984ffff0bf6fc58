"""What the session sets: needs stand, tastes give way to the operator's."""

from __future__ import annotations

import pytest

from spark_rollups.session import chosen_settings

DELTA = "io.delta.sql.DeltaSparkSessionExtension"


def test_what_spark_submit_was_told_stands():
    given = {
        "spark.master": "yarn",
        "spark.ui.enabled": "true",
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "128",
        "spark.executor.extraJavaOptions": "-XX:+UseZGC",
    }
    chosen = chosen_settings(given, master=None, memory="2g")
    assert given.keys() & chosen.keys() == set()
    assert "spark.driver.memory" not in chosen
    # What is for one machine is not for a cluster.
    assert "spark.sql.shuffle.partitions" not in chosen


def test_a_cluster_keeps_its_web_page():
    assert "spark.ui.enabled" not in chosen_settings(
        {"spark.master": "yarn"}, master=None, memory="2g"
    )
    assert chosen_settings({}, master=None, memory="2g")["spark.ui.enabled"] == "false"


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        (None, DELTA),
        ("org.example.Other", f"org.example.Other,{DELTA}"),
        (f"{DELTA},org.example.Other", None),
    ],
)
def test_deltas_extension_stands_beside_others(theirs, expected):
    given = {"spark.sql.extensions": theirs} if theirs else {}
    assert chosen_settings(given, master=None, memory="2g").get("spark.sql.extensions") == expected


def test_hours_are_utc_whatever_was_set():
    given = {"spark.sql.session.timeZone": "Asia/Tokyo"}
    chosen = chosen_settings(given, master=None, memory="2g")
    assert chosen["spark.sql.session.timeZone"] == "UTC"


def test_javas_options_of_the_operator_are_kept():
    given = {"spark.driver.extraJavaOptions": "-Xss4m"}
    options = chosen_settings(given, master=None, memory="2g")["spark.driver.extraJavaOptions"]
    assert options.startswith("-Dlog4j2.configurationFile=")
    assert options.endswith(" -Xss4m")


def test_there_are_no_flags_for_javas_compilers():
    for given in ({}, {"spark.master": "yarn"}):
        assert "-XX" not in str(chosen_settings(given, master=None, memory="2g"))
