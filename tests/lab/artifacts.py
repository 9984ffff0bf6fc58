"""Fetch the lab's jars and compile its Java and C sources, once, into a cache folder.

A folder in the cache is complete or absent: it is filled under another name and renamed,
so an interrupted fetch is repeated and never half used.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.lab import versions
from tests.lab.errors import LabError, LabUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["Artifacts", "cache_folder", "fetch_artifacts"]

_LAB: Final = Path(__file__).resolve().parent
_TOOLS: Final = {
    "java": "default-jdk-headless",
    "javac": "default-jdk-headless",
    "mvn": "maven",
    "gcc": "gcc libc6-dev",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifacts:
    """Where everything that was fetched and compiled lies."""

    server_jars: Path
    client_jars: dict[str, Path]
    agent_jars: Path
    micrometer_jars: Path
    broker_classes: Path
    client_classes: dict[str, Path]
    micrometer_classes: dict[str, Path]
    shim: Path

    @property
    def jmx_exporter(self) -> Path:
        """The jmx_exporter Java agent."""
        return self.agent_jars / f"jmx_prometheus_javaagent-{versions.JMX_EXPORTER}.jar"

    @property
    def jolokia(self) -> Path:
        """The Jolokia Java agent."""
        return self.agent_jars / f"jolokia-agent-jvm-{versions.JOLOKIA}-javaagent.jar"


def cache_folder() -> Path:
    """Return `$BROKERWIRE_CACHE`, or `.cache` in the repository."""
    chosen = os.environ.get("BROKERWIRE_CACHE")
    return Path(chosen) if chosen else _LAB.parents[1] / ".cache"


def fetch_artifacts(*, say: Callable[[str], None] = lambda _line: None) -> Artifacts:
    """Bring the cache up to date and say where its parts are.

    Raises:
        LabUnavailableError: a tool is missing on this machine.
        LabError: a tool ran and failed, or a jar is not the one that was pinned.

    """
    _check_tools()
    cache = cache_folder() / "lab"
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / "lock"):
        return _Builder(cache, say).build()


@dataclass(frozen=True, slots=True)
class _Builder:
    cache: Path
    say: Callable[[str], None]

    def build(self) -> Artifacts:
        server = self._jars("server", f"server-{versions.SERVER}", {"kafka": versions.SERVER})
        clients = {
            generation: self._jars("client", f"client-{generation}", {"clients": generation})
            for generation in versions.CLIENT_GENERATIONS
        }
        agents = self._jars(
            "agents",
            f"agents-{versions.JMX_EXPORTER}-{versions.JOLOKIA}",
            {"jmx_exporter": versions.JMX_EXPORTER, "jolokia": versions.JOLOKIA},
        )
        micrometer = self._jars(
            "micrometer",
            f"micrometer-{versions.MICROMETER}",
            {"micrometer": versions.MICROMETER},
        )
        java = _LAB / "java"
        client_sources = sorted((java / "client").glob("*.java"))
        binding = sorted((java / "micrometer").glob("*.java"))
        return Artifacts(
            server_jars=server,
            client_jars=clients,
            agent_jars=agents,
            micrometer_jars=micrometer,
            broker_classes=self._classes("broker", sorted((java / "broker").glob("*.java")), []),
            client_classes={
                generation: self._classes(f"client-{generation}", client_sources, [jars])
                for generation, jars in clients.items()
            },
            micrometer_classes={
                generation: self._classes(f"micrometer-{generation}", binding, [jars, micrometer])
                for generation, jars in clients.items()
            },
            shim=self._shim(_LAB / "shim.c"),
        )

    def _jars(self, pom: str, folder: str, pins: dict[str, str]) -> Path:
        def fill(target: Path) -> None:
            self.say(f"fetching {folder}")
            plugin = f"org.apache.maven.plugins:maven-dependency-plugin:{versions.MAVEN_DEPENDENCY_PLUGIN}"
            properties = {**pins, "slf4j": versions.SLF4J}
            _run(
                ["mvn", "--batch-mode", "--quiet", "--file", str(_LAB / "maven" / f"{pom}.xml")]
                + [f"-Dlab.{name}.version={version}" for name, version in properties.items()]
                + [f"-DoutputDirectory={target}", f"{plugin}:copy-dependencies"]
            )
            _check_digests(target)

        return self._filled(folder, fill)

    def _classes(self, name: str, sources: Sequence[Path], jars: Sequence[Path]) -> Path:
        def fill(target: Path) -> None:
            self.say(f"compiling {name}")
            _run(
                ["javac", "--release", "8", "-Xlint:-options", "-nowarn", "-d", str(target)]
                + ["-classpath", os.pathsep.join(f"{folder}/*" for folder in jars) or "."]
                + [str(source) for source in sources]
            )

        return self._filled(f"classes-{name}-{_digest_of(sources)}", fill)

    def _shim(self, source: Path) -> Path:
        def fill(target: Path) -> None:
            self.say("compiling the connect shim")
            output = ["-o", str(target / "shim.so"), "-ldl", "-lpthread"]
            _run(["gcc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", str(source), *output])

        return self._filled(f"shim-{_digest_of([source])}", fill) / "shim.so"

    def _filled(self, folder: str, fill: Callable[[Path], None]) -> Path:
        final = self.cache / folder
        if not final.is_dir():
            partial = self.cache / f"{folder}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            fill(partial)
            partial.rename(final)
        return final


def _check_tools() -> None:
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        packages = " ".join(dict.fromkeys(_TOOLS[tool] for tool in missing))
        raise LabUnavailableError(
            f"the Kafka lab needs {', '.join(missing)}: apt-get install {packages}"
        )


def _check_digests(folder: Path) -> None:
    for jar in sorted(folder.glob("*.jar")):
        expected = versions.DIGESTS.get(jar.name)
        actual = hashlib.sha256(jar.read_bytes()).hexdigest()
        if expected is not None and expected != actual:
            raise LabError(f"{jar.name} has sha256 {actual}, but versions.py pins {expected}")


def _digest_of(sources: Sequence[Path]) -> str:
    """Name compiled output by its sources: an edit compiles anew, without comparing times."""
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:12]


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        output = (done.stdout + done.stderr).strip()[-4000:]
        raise LabError(f"{command[0]} ended with {done.returncode}:\n{output}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
