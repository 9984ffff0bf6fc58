"""A process with librdkafka clients that tell the truth about their sockets."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.lab.clients import ClientProcess
from tests.lab.control import Control
from tests.lab.processes import ManagedProcess
from tests.lab.rdkafka_sockets import RdkafkaSockets

if TYPE_CHECKING:
    from tests.lab.artifacts import Artifacts
    from tests.lab.cluster import KafkaCluster
    from tests.lab.listeners import Mechanism
    from tests.lab.truth import TruthConnection

__all__ = ["RdkafkaClient", "Statistics"]

_ROOT: Final = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Where librdkafka's statistics go, and how often; one of the three targets, or none."""

    interval: float = 1.0
    """Seconds; 0 switches statistics off, which is librdkafka's own default."""
    post_to: str | None = None
    """A URL: one POST with one JSON document each time."""
    socket: Path | None = None
    """A Unix stream socket to connect to: one JSON document a line."""
    file: Path | None = None
    """A file to append to: one JSON document a line."""


class RdkafkaClient(ClientProcess):
    """A `ClientProcess` of librdkafka, as confluent-kafka brings it."""

    def __init__(
        self,
        artifacts: Artifacts,
        cluster: KafkaCluster,
        *,
        statistics: Statistics | None = None,
        name: str = "librdkafka",
    ) -> None:
        """Start the process; it has no clients yet."""
        self._folder = Path(tempfile.mkdtemp(prefix=f"brokerwire-rdkafka-{os.getpid()}-"))
        shim_log = self._folder / "shim.log"
        environment = {
            "LD_PRELOAD": str(artifacts.shim),
            "LAB_SHIM_LOG": str(shim_log),
            "PYTHONPATH": str(_ROOT),
        }
        command = [sys.executable, "-m", "tests.lab.rdkafka", *_delivery(statistics)]
        log = self._folder / "stderr.log"
        process = ManagedProcess(name, command, log, environment=environment, answers=True)
        try:
            control = Control(process)
        except BaseException:
            process.kill()
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        super().__init__(cluster, process, control)
        self._statistics = statistics
        self._sockets = RdkafkaSockets(shim_log=shim_log, library_log=log)

    def end(self) -> None:
        """Kill the process and remove its files."""
        super().end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def truth(self) -> list[TruthConnection]:
        """Return the sockets that librdkafka's broker threads have opened and not closed."""
        owners = {owner["tag"]: owner for owner in self._control.call("owners")}
        return self._sockets.connections(
            owners, pid=self.pid, brokers=self.cluster.broker_of_address()
        )

    def _base_properties(self, listener: str, mechanism: Mechanism) -> dict[str, str]:
        properties = self.cluster.librdkafka_properties(listener, mechanism=mechanism)
        properties["debug"] = "broker"  # the truth is read from it
        if self._statistics is not None:
            properties["statistics.interval.ms"] = str(round(self._statistics.interval * 1000))
        return properties


def _delivery(statistics: Statistics | None) -> list[str]:
    if statistics is None:
        return []
    targets = {
        "post": statistics.post_to,
        "socket": statistics.socket,
        "file": statistics.file,
    }
    return [f"--{name}={target}" for name, target in targets.items() if target is not None]
