"""One Spark session for all tests here: starting it costs more than any of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_rollups.errors import MissingPartError
from tests.spark.command import JVM_FLAGS

LOGGING = Path(__file__).parents[2] / "spark_rollups" / "log4j2.properties"


def pytest_collection_modifyitems(items):
    """Mark what needs Spark, and leave PySpark's own sockets to PySpark."""
    for item in items:
        if "/tests/spark/" in str(item.path):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.timeout(900))
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.fixture(scope="session")
def spark():
    """Return a small local Spark, or skip with the reason; in CI a skip is a failure."""
    from spark_rollups.session import spark_session

    logging = f"-Dlog4j2.configurationFile={LOGGING.as_uri()}"
    try:
        session = spark_session(
            "tests",
            master="local[2]",
            memory="1g",
            settings={
                "spark.sql.shuffle.partitions": "2",
                # Plans of a hundred columns are made once, not anew after each stage.
                "spark.sql.adaptive.enabled": "false",
                "spark.driver.extraJavaOptions": f"{logging} {JVM_FLAGS}",
            },
        )
    except MissingPartError as error:
        if os.environ.get("CI", "").lower() in {"1", "true"}:
            pytest.fail(str(error))
        pytest.skip(str(error))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def faulty(spark, tmp_path_factory):
    """Return a fleet whose journals are damaged in many ways, and the tables of all of them."""
    from spark_rollups.tables import Tables
    from tests.spark.fleets import FAULTS, batch, simulate

    folder = tmp_path_factory.mktemp("faulty")
    fleet = simulate(folder / "fleet", f"--faults={FAULTS}")
    tables = Tables(spark, str(folder / "tables"))
    assert len(batch(tables, fleet / "journal")) == 1
    return fleet, tables


@pytest.fixture
def tables(spark, tmp_path):
    """Return tables that nobody else has."""
    from spark_rollups.tables import Tables

    return Tables(spark, str(tmp_path / "tables"))
