"""A pod of podman's: the image, a real broker in its network, a real Java client in a container."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.monitoring import get

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).parents[2]
# The machine that runs CI may not raise its limits: podman's own defaults do not start there.
SETTINGS = REPOSITORY / "image" / "small-machine.conf"
IMAGE = "localhost/brokerwire:test"
BASE = "localhost/brokerwire-base:bookworm"
# What the chart gives the sidecar, in podman's words (Kubernetes' seccomp default is podman's own).
CLOSED = ("--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges")
MEMORY = ("--memory", "96m")
LABEL = "brokerwire-test"
# Looked up once: the tests put another `java` before it in PATH.
JAVA = Path(shutil.which("java") or "java").resolve()


def podman(*arguments: str, check: bool = True, timeout: float = 120) -> str:
    done = subprocess.run(
        ["podman", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, "CONTAINERS_CONF": str(SETTINGS)},
    )
    if check and done.returncode != 0:
        raise AssertionError(f"podman {' '.join(arguments)}: {done.stderr}")
    return done.stdout.strip()


def need_podman() -> None:
    """Skip where containers cannot be made; in CI a skip is a failure."""
    missing = [name for name in ("podman", "runc", "nsenter") if shutil.which(name) is None]
    if os.geteuid() != 0:
        missing.append("root")
    if missing:
        reason = f"{', '.join(missing)} is missing: run tools/install_container_tools.sh"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


def build(tag: str, *options: str) -> dict[str, Any]:
    """Build the image as everybody does, and return what podman says of it."""
    done = subprocess.run(
        [REPOSITORY / "tools" / "build_image.sh", *options, "--tag", tag, "--tool", "podman"],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env={**os.environ, "CONTAINERS_CONF": str(SETTINGS)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(podman("image", "inspect", tag))[0]


@cache
def agent_image() -> dict[str, Any]:
    """Build the agent's image, once in a run: it takes some 15 seconds."""
    return build(IMAGE)


@dataclass(frozen=True)
class Pod:
    """Containers that share a network, and processes where asked."""

    name: str
    address: str
    network: str
    """The path by which nsenter gets into its network."""

    def run(self, image: str, *arguments: str, options: tuple[str, ...] = ()) -> str:
        """Start a container in the background and return its id."""
        return podman("run", "--detach", "--pod", self.name, *options, image, *arguments)

    def ask(self, path: str) -> Any:
        """Ask the agent, as a scraper does: over the pod's address."""
        return json.loads(get(f"http://{self.address}:10920{path}", timeout=5.0))


@contextmanager
def pod(*, shared: str) -> Iterator[Pod]:
    """Make a pod whose containers share these namespaces, and remove it with all it has."""
    name = f"{LABEL}-{uuid.uuid4().hex[:8]}"
    podman("pod", "create", "--name", name, "--share", shared)
    try:
        podman("pod", "start", name)
        infra = json.loads(podman("pod", "inspect", name))["InfraContainerID"]
        found = json.loads(podman("inspect", infra))[0]
        networks = found["NetworkSettings"]["Networks"].values()
        address = next(each["IPAddress"] for each in networks)
        yield Pod(name, address, f"/proc/{found['State']['Pid']}/ns/net")
    finally:
        podman("pod", "rm", "--force", "--time", "2", name, check=False)


def java_by(folder: Path, command: str) -> None:
    """Write a `java` that the lab starts in place of the machine's: in the pod."""
    folder.mkdir()
    program = folder / "java"
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    program.chmod(0o755)


def in_network(pod: Pod) -> str:
    """Return what starts the machine's JVM in the pod's network: for the broker."""
    return f"nsenter --net={pod.network} {JAVA}"


def in_container(pod: Pod, uid: int, *folders: Path) -> str:
    """Return what starts the machine's JVM in a container of its own: for the client."""
    mounted = [JAVA.parents[1], *Path("/etc").glob("java-*-openjdk"), *folders]
    mounts = " ".join(f"--volume {path}:{path}:ro" for path in mounted)
    closed = "--cap-drop all --security-opt no-new-privileges"
    return (
        f"env CONTAINERS_CONF={SETTINGS} podman run --rm --interactive --pod {pod.name} --user {uid}:{uid} {closed} {mounts}"
        f" --workdir / {BASE} {JAVA}"
    )
