"""One controller or broker process of a lab cluster: its files, its JVM, its readiness."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.lab.processes import ManagedProcess, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.lab.artifacts import Artifacts

__all__ = ["KafkaNode"]

_JVM: Final = (
    "-Xms64m",
    "-Xmx384m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)
_STARTED: Final = "Kafka Server started"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaNode:
    """A node's folder and settings; the process is made of them, possibly more than once."""

    node_id: int
    folder: Path
    settings: Mapping[str, str]
    cluster_id: str
    name: str

    @property
    def data(self) -> Path:
        """Where the node keeps its logs."""
        return self.folder / "data"

    def start(self, artifacts: Artifacts, *, format_with: Sequence[str] = ()) -> ManagedProcess:
        """Write the settings and start the JVM; `format_with` are storage tool arguments."""
        self.folder.mkdir(exist_ok=True)
        properties = self.folder / "server.properties"
        settings = {**self.settings, "node.id": str(self.node_id), "log.dirs": str(self.data)}
        lines = [f"{key}={value}" for key, value in settings.items()]
        properties.write_text("\n".join(lines) + "\n")
        if not format_with and not self.data.exists():
            self._format()
        classpath = [str(artifacts.broker_classes), f"{artifacts.server_jars}/*"]
        command = ["java", *_JVM, "-cp", os.pathsep.join(classpath), "LabBroker", str(properties)]
        if format_with:
            command += ["format", "--config", str(properties)]
            command += ["--cluster-id", self.cluster_id, *format_with]
        return ManagedProcess(self.name, command, self.folder / "stdout.log")

    def copy_data_from(self, other: KafkaNode) -> None:
        """Take over another node's data, as a volume that moves with its broker."""
        self.folder.mkdir()
        shutil.copytree(other.data, self.data, ignore=shutil.ignore_patterns(".lock"))

    def wait_ready(self, process: ManagedProcess, *, timeout: float) -> None:
        """Wait until the log of this start says that the node is up."""

        def started() -> bool:
            if not process.running:
                raise process.failure("did not start")
            return _STARTED in process.log_text()

        wait_until(f"{self.name} to start, see {process.log}", started, timeout=timeout)

    def _format(self) -> None:
        """Do for a broker what the storage tool would do, without the start of one more JVM.

        Only the controller's storage carries more than its identity.
        """
        self.data.mkdir()
        (self.data / "meta.properties").write_text(
            f"version=1\ncluster.id={self.cluster_id}\nnode.id={self.node_id}\n"
            f"directory.id={_directory_id(self.node_id)}\n"
        )


def _directory_id(node_id: int) -> str:
    """Return a base64 UUID: any will do that is neither reserved nor another node's."""
    return f"labDirectory{node_id:09d}A"
