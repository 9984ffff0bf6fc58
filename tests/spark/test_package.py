"""What spark-submit is given holds all that a driver without our packages needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark


def test_a_driver_with_nothing_but_pyspark_runs_from_the_zip(tmp_path):
    """Delta's Python package and the report's templates come out of it, not from this machine."""
    pyspark = pytest.importorskip("pyspark")
    from spark_rollups.cli import main

    parts = tmp_path / "parts"
    assert main(["package", "--to", str(parts)]) == 0
    site = Path(pyspark.__file__).parents[1]
    other = tmp_path / "other"
    other.mkdir()
    for each in site.iterdir():
        if not each.name.startswith(
            ("delta", "spark_rollups", "exporter", "journal_schema", "brokerwire", "_")
        ):
            (other / each.name).symlink_to(each)
    program = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "import delta.tables, delta.exceptions, spark_rollups.cli, spark_rollups.tables\n"
        "import spark_rollups.jobs.batch, spark_rollups.jobs.streaming\n"
        "from spark_rollups.report import page\n"
        "from tests_digest import empty\n"
        "print(delta.__file__, spark_rollups.__file__, 'body' in page.render(empty()))\n"
    )
    (other / "tests_digest.py").write_text(
        (Path(__file__).parents[1] / "unit" / "digests.py").read_text("utf-8")
        + "\n\nempty = empty_digest\n",
        "utf-8",
    )
    archive = parts / "spark_rollups.zip"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, str(archive), str(other)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == [
        f"{archive}/delta/__init__.py",
        f"{archive}/spark_rollups/__init__.py",
        "True",
    ]
