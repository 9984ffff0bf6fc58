"""The jars that PySpark lacks, Delta and the Kafka source: fetched once, pinned by digest."""

from __future__ import annotations

__all__ = ["DIGESTS", "fetch_jars", "jar_paths"]

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from spark_rollups.errors import MissingPartError, RollupsError

_POM: Final = Path(__file__).parent / "jars.xml"
_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"

# sha256 of every jar of jars.xml: what else arrives is refused.
DIGESTS: Final[dict[str, str]] = {
    f"{name}.jar": digest
    for digest, name in (
        line.split()
        for line in """
f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f commons-pool2-2.13.1
ee9b5a14ac3b7efdff4d61a58478fe8eb0e5a3fbca43889dca7290795fe79a11 delta-kernel-api-4.4.0
225c975199e4718b38ee5b7e6da7f19e9585024262b2cec2656b32151a856b0b delta-kernel-defaults-4.4.0
27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead delta-spark_4.2_2.13-4.4.0
c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc delta-storage-4.4.0
014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8 kafka-clients-3.9.2
64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705 spark-sql-kafka-0-10_2.13-4.2.0
641c7947afc8aa1189e433b7c2d305293993c8691bc1c2062d6d4f513b12518c \
spark-token-provider-kafka-0-10_2.13-4.2.0
""".strip().splitlines()
    )
}


def jar_paths() -> list[Path]:
    """Return the jars, fetching them into the cache the first time.

    Raises:
        MissingPartError: they are not there and there is no Maven to fetch them with.

    """
    folder = _folder()
    if not folder.is_dir():
        fetch_jars(folder)
    return [folder / name for name in sorted(DIGESTS)]


def fetch_jars(folder: Path) -> None:
    """Fill a folder that does not exist yet; it is whole or absent, whoever else does the same."""
    if shutil.which("mvn") is None:
        raise MissingPartError(
            "Spark needs the jars of spark_rollups/jars.xml and Maven is not there to fetch them:"
            " apt-get install maven, or copy them on another machine with"
            f" 'brokerwire-rollups package --to DIR' into {folder}"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetching-jars-") as partial:
        _copy_dependencies(Path(partial))
        _check(Path(partial))
        try:
            Path(partial).rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
        else:
            Path(partial).mkdir()  # what the context manager takes away
    folder.chmod(0o755)


def _folder() -> Path:
    """Name the folder by what must be in it: other pins are another folder."""
    chosen = os.environ.get("BROKERWIRE_CACHE")
    cache = Path(chosen) if chosen else Path.home() / ".cache" / "brokerwire"
    pins = hashlib.sha256(repr(sorted(DIGESTS.items())).encode()).hexdigest()[:12]
    return (cache / f"spark-jars-{pins}").absolute()


def _copy_dependencies(folder: Path) -> None:
    command = ["mvn", "--batch-mode", "--quiet", "--file", str(_POM)]
    done = subprocess.run(  # noqa: S603 -- our own file and folder, no shell
        [*command, f"-DoutputDirectory={folder}", _PLUGIN],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RollupsError(
            f"Maven could not fetch the jars:\n{(done.stdout + done.stderr)[-2000:]}"
        )


def _check(folder: Path) -> None:
    found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in folder.iterdir()}
    if found != DIGESTS:
        wrong = sorted(name for name, _ in found.items() ^ DIGESTS.items())
        raise RollupsError(f"these jars are not those that are pinned: {', '.join(set(wrong))}")
