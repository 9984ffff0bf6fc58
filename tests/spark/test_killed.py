"""Kill -9 at the worst moments of a batch, one after the other on the same tables.

That between silver and the tables behind it is in test_stale.py, without a process of its own.
"""

from __future__ import annotations

import pytest

from tests.spark.command import Command, run_to_the_end
from tests.spark.comparing import differences
from tests.spark.fleets import batch, simulate


@pytest.mark.flaky(reruns=1)  # it kills at moments that the machine must offer
@pytest.mark.timeout(1500)
def test_a_batch_that_is_killed_again_and_again_ends_as_one_clean_run(spark, tables, tmp_path):
    from spark_rollups.tables import Tables

    fleet = simulate(tmp_path / "fleet", agents=4, hours=1)
    batch(tables, fleet / "journal")

    killed = tmp_path / "killed"
    run = ("batch", "--input", fleet / "journal", "--tables", killed, "--memory", "1g")

    # While silver's files are being written: some are there, their commit is not, or just is.
    Command(*run).kill_when(lambda: any(killed.glob("silver/**/*.parquet")))
    # Some of the tables behind it are new, others are not, and all files are remembered as read.
    command = Command(*run)
    command.kill_when(lambda: command.said("days again"))
    run_to_the_end(*run)

    assert differences(Tables(spark, str(killed)), tables) == {}
