"""What every step of the walk has at hand: the cluster, a folder, and a voice."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.e2e.monitoring import get
from tests.helm.tools import tool
from tests.kubernetes.cluster import REPOSITORY, run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kubernetes.cluster import Cluster
    from tests.lab.artifacts import Artifacts

CHART = REPOSITORY / "helm" / "brokerwire"
# The namespace of our own release, and the one of the broker and its clients.
OURS, SHOP = "monitoring", "shop"


@dataclass(kw_only=True)
class Walk:
    """Handed from step to step; `lines` is what they said."""

    cluster: Cluster
    folder: Path
    artifacts: Artifacts
    lines: list[str] = field(default_factory=list)
    since: float = field(default_factory=time.monotonic)

    def say(self, text: str) -> None:
        """Say what holds, and how long it took."""
        now = time.monotonic()
        line = f"{now - self.since:6.1f} s  {text}"
        self.since = now
        self.lines.append(line)
        print(line, flush=True)

    def helm(self, *arguments: str | Path) -> str:
        return run(tool("helm"), *arguments)

    def upgrade_ours(self, *arguments: str | Path) -> None:
        """Give our own release further values."""
        self.helm("upgrade", "brokerwire", CHART, "--namespace", OURS, "--reuse-values", *arguments)


def ask(pod: dict[str, Any], path: str) -> Any:
    """Return what the agent in a pod answers."""
    return json.loads(get(f"http://{pod['status']['podIP']}:10920{path}", timeout=5))


def metrics_of(pod: dict[str, Any]) -> list[str]:
    """Return the lines of an agent's exposition."""
    return get(f"http://{pod['status']['podIP']}:10920/metrics", timeout=5).decode().splitlines()


def resident_mib(lines: list[str]) -> float:
    """Return the memory that an agent has by its own exposition."""
    (line,) = [each for each in lines if each.startswith("process_resident_memory_bytes ")]
    return float(line.split()[1]) / 2**20
