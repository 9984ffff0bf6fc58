"""`brokerwire-rollups package`: what a cluster needs beside its own Spark."""

from __future__ import annotations

__all__ = ["add_parser"]

import argparse
import shutil
import zipfile
from importlib.util import find_spec
from pathlib import Path

from spark_rollups.commands.arguments import Commands, talk
from spark_rollups.errors import MissingPartError

MAIN = """\
import sys

from spark_rollups.cli import main

sys.exit(main())
"""

EPILOG = """\
example:
  brokerwire-rollups package --to dist
  spark-submit --master spark://HOST:7077 --jars $(ls -m dist/*.jar | tr -d ' \\n') \\
    --py-files dist/spark_rollups.zip dist/rollups.py batch --input ... --tables ..."""


def add_parser(commands: Commands) -> None:
    """Add `package`."""
    parser = commands.add_parser(
        "package",
        help="write what spark-submit needs: a zip, a main file and the jars",
        description="Write what spark-submit needs into a folder: spark_rollups.zip for --py-files"
        " (with Delta's Python package), rollups.py to submit, and the jars for --jars.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--to", required=True, type=Path, metavar="DIR")
    parser.set_defaults(execute=_execute)


def _execute(options: argparse.Namespace) -> int:
    from spark_rollups.jars import jar_paths

    folder: Path = options.to
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / "spark_rollups.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        # Spark's own images have PySpark, but not Delta's Python side, which the driver imports.
        rollups = Path(__file__).parent.parent
        for package in (rollups, rollups.parent / "journal_schema", _delta()):
            for path in sorted(package.rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    archive.write(path, path.relative_to(package.parent))
    (folder / "rollups.py").write_text(MAIN, "utf-8")
    for jar in jar_paths():
        shutil.copyfile(jar, folder / jar.name)
    talk(f"written to {folder}")
    return 0


def _delta() -> Path:
    # Without importing it: that would take PySpark, and this command needs no Spark.
    spec = find_spec("delta")
    if spec is None or spec.origin is None:
        raise MissingPartError(
            "the zip needs Delta's Python package: pip install -e '.[spark]' in a checkout"
        )
    return Path(spec.origin).parent
