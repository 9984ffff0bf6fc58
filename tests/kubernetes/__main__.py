"""`make e2e-kubernetes`: the chart on a real Kubernetes, step by step.

Every step is a claim with an assertion; the first that does not hold ends the walk. With `--write`
the output goes into docs/internals/verification.md. With `--rollups` the chart's CronJob is walked through, too:
its image has a gigabyte, and a job of it is minutes of a processor.
"""

from __future__ import annotations

import json
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.kubernetes.applications import (
    include,
    inject,
    start_broker,
    start_without_sidecar,
    upgrade,
)
from tests.kubernetes.cluster import REPOSITORY, Cluster
from tests.kubernetes.debugging import look_once
from tests.kubernetes.images import bring_definitions, bring_images
from tests.kubernetes.node import watch_from_the_node
from tests.kubernetes.plain_yaml import kustomize
from tests.kubernetes.prometheus import scrape
from tests.kubernetes.release import install, uninstall
from tests.kubernetes.rollups import add_up
from tests.kubernetes.walk import Walk
from tests.lab.artifacts import fetch_artifacts

PAGE = REPOSITORY / "docs" / "internals" / "verification.md"
START, END = "<!-- e2e -->", "<!-- /e2e -->"


def main(arguments: list[str]) -> int:
    """Walk all steps."""
    artifacts = fetch_artifacts()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="brokerwire-e2e-")))
        cluster = stack.enter_context(Cluster(folder / "cluster"))
        walk = Walk(cluster=cluster, folder=folder, artifacts=artifacts)
        version = json.loads(cluster.kubectl("version", "--output", "json"))["serverVersion"]
        walk.say(f"Kubernetes {version['gitVersion']}, one node")
        bring_images(walk)
        bring_definitions(walk)
        install(walk)
        servers = start_broker(walk)
        included = include(walk, servers)
        other = inject(walk, servers)
        scrape(walk, stack, [included, other])
        kustomize(walk, servers)
        upgraded = upgrade(walk, included)
        look_once(walk, start_without_sidecar(walk, servers))
        watch_from_the_node(walk)
        if "--rollups" in arguments:
            add_up(walk, stack, servers, upgraded)
        uninstall(walk)
    if "--write" in arguments:
        _write(walk.lines)
    return 0


def _write(lines: list[str]) -> None:
    before, _, rest = PAGE.read_text("utf-8").partition(START)
    after = rest.partition(END)[2]
    body = "\n".join(lines)
    PAGE.write_text(f"{before}{START}\n```text\n{body}\n```\n{END}{after}", "utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
