"""A JVM with real Java clients of one generation, and the agents that publish their metrics."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.lab.addresses import free_port
from tests.lab.clients import ClientProcess
from tests.lab.control import Control
from tests.lab.errors import LabError
from tests.lab.processes import ManagedProcess
from tests.lab.truth import TruthConnection, truth_of_java

if TYPE_CHECKING:
    from tests.lab.artifacts import Artifacts
    from tests.lab.cluster import KafkaCluster
    from tests.lab.listeners import Mechanism

__all__ = ["JMX_RULES", "JavaClient", "JavaMetrics"]

_JVM: Final = (
    "-Xms32m",
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    # A channel that still connects tells its local port only to the JDK's own classes.
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)
# Rule files of jmx_exporter by the dialect that they make it speak.
JMX_RULES: Final = {
    "plain": Path(__file__).parent / "jmx" / "plain.yaml",
    "connect": Path(__file__).parent / "jmx" / "connect.yaml",
    "connect-total": Path(__file__).parent / "jmx" / "connect-total.yaml",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaMetrics:
    """How a JVM publishes its clients' metrics; several ways at once are possible."""

    jmx_exporter: str | Path | None = None
    """A name in `JMX_RULES`, or a rule file of your own."""
    jolokia: bool = False
    micrometer: bool = False
    host: str = "127.0.0.1"
    jmx_port: int = 0
    """0 here and below: a free one."""
    jolokia_port: int = 0
    micrometer_port: int = 0

    def address(self, port: int) -> str:
        """Return `host:port`, the port chosen if need be."""
        return f"{self.host}:{port or free_port(self.host)}"


class JavaClient(ClientProcess):
    """A `ClientProcess` of one of the three generations of kafka-clients."""

    def __init__(
        self,
        artifacts: Artifacts,
        cluster: KafkaCluster,
        generation: str,
        *,
        metrics: JavaMetrics | None = None,
        jvm_options: tuple[str, ...] = (),
    ) -> None:
        """Start the JVM; it has no clients yet."""
        if generation not in artifacts.client_jars:
            raise LabError(f"no client {generation}; there are {list(artifacts.client_jars)}")
        self._folder = Path(tempfile.mkdtemp(prefix=f"brokerwire-java-{os.getpid()}-"))
        how = metrics or JavaMetrics()
        self.jmx_url = self.jolokia_url = self.micrometer_url = ""
        options = [*_JVM, *jvm_options]
        arguments: list[str] = []
        classpath = [artifacts.client_classes[generation], artifacts.client_jars[generation] / "*"]
        if how.jmx_exporter is not None:
            rules = JMX_RULES.get(str(how.jmx_exporter), Path(how.jmx_exporter))
            at = how.address(how.jmx_port)
            self.jmx_url = f"http://{at}/metrics"
            options.append(f"-javaagent:{artifacts.jmx_exporter}={at}:{rules}")
        if how.jolokia:
            at = how.address(how.jolokia_port)
            port = at.rpartition(":")[2]
            self.jolokia_url = f"http://{at}/jolokia/"
            options.append(
                f"-javaagent:{artifacts.jolokia}=host={how.host},port={port},discoveryEnabled=false"
            )
        if how.micrometer:
            at = how.address(how.micrometer_port)
            self.micrometer_url = f"http://{at}/metrics"
            arguments.append(at)
            classpath.append(artifacts.micrometer_classes[generation])
            classpath.append(artifacts.micrometer_jars / "*")
        joined = os.pathsep.join(str(part) for part in classpath)
        command = ["java", *options, "-cp", joined, "LabClient", *arguments]
        name = f"java-{generation}"
        process = ManagedProcess(name, command, self._folder / "stderr.log", answers=True)
        try:
            control = Control(process)
        except BaseException:
            process.kill()
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        super().__init__(cluster, process, control)

    def end(self) -> None:
        """Kill the JVM and remove its files."""
        super().end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def truth(self) -> list[TruthConnection]:
        """Return the channel tables of all clients here, by reflection inside the JVM."""
        brokers = self.cluster.broker_of_address()
        answers = self._control.call("truth")
        return [truth_of_java(answer, pid=self.pid, brokers=brokers) for answer in answers]

    def _base_properties(self, listener: str, mechanism: Mechanism) -> dict[str, str]:
        return self.cluster.java_properties(listener, mechanism=mechanism)
