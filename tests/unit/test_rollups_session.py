"""What the session sets: needs stand, tastes give way to the operator's."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_rollups.session import chosen_settings, defaults_file


def chosen(given, *, submitted=False):
    return chosen_settings(given, submitted=submitted, master=None, memory="2g")


DELTA = "io.delta.sql.DeltaSparkSessionExtension"


def test_what_spark_submit_was_told_stands():
    given = {
        "spark.master": "yarn",
        "spark.ui.enabled": "true",
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "128",
        "spark.executor.extraJavaOptions": "-XX:+UseZGC",
    }
    ours = chosen(given, submitted=True)
    assert given.keys() & ours.keys() == set()
    assert "spark.driver.memory" not in ours
    # What is for one machine is not for a cluster.
    assert "spark.sql.shuffle.partitions" not in ours


def test_a_cluster_keeps_its_web_page():
    yarn = {"spark.master": "yarn"}
    for submitted in (True, False):
        assert "spark.ui.enabled" not in chosen(yarn, submitted=submitted)
    assert chosen({})["spark.ui.enabled"] == "false"


def test_a_local_spark_makes_no_folder_where_it_is_started():
    """Spark makes the folder of its warehouse, by default in the working directory."""
    warehouse = chosen({})["spark.sql.warehouse.dir"]
    assert Path(warehouse.removeprefix("file://")).is_dir()
    assert warehouse != Path.cwd().as_uri()
    assert "spark.sql.warehouse.dir" not in chosen({"spark.master": "yarn"})


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
    assert chosen(given).get("spark.sql.extensions") == expected


def test_hours_are_utc_whatever_was_set():
    given = {"spark.sql.session.timeZone": "Asia/Tokyo"}
    assert chosen(given)["spark.sql.session.timeZone"] == "UTC"


def test_javas_options_of_the_operator_are_kept():
    given = {"spark.driver.extraJavaOptions": "-Xss4m"}
    options = chosen(given)["spark.driver.extraJavaOptions"]
    assert options.startswith("-Dlog4j2.configurationFile=")
    assert options.endswith(" -Xss4m")


def test_there_are_no_flags_for_javas_compilers():
    for submitted in (True, False):
        assert "-XX" not in str(chosen({}, submitted=submitted))


def test_sparks_file_of_defaults_stands_without_spark_submit(tmp_path):
    """The chart's `sparkConf` is such a file, and its Spark runs inside the pod."""
    text = "# ours\n\nspark.sql.shuffle.partitions  64\nspark.ui.enabled=true\n spark.x : a b \n"
    (tmp_path / "spark-defaults.conf").write_text(text)
    given = defaults_file({"SPARK_CONF_DIR": str(tmp_path), "SPARK_HOME": "/nowhere"})
    assert given == {
        "spark.sql.shuffle.partitions": "64", "spark.ui.enabled": "true", "spark.x": "a b"
    }  # fmt: skip
    assert given.keys() & chosen(given).keys() == set()
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.a 1")
    assert defaults_file({"SPARK_HOME": str(tmp_path)}) == {"spark.a": "1"}
    assert defaults_file({}) == {}
