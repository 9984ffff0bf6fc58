"""The walk's images: built here, and put onto the node, since there is no registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.kubernetes.cluster import CACHE, REPOSITORY, run

if TYPE_CHECKING:
    from tests.kubernetes.walk import Walk

AGENT = "localhost/brokerwire:e2e"
ROLLUPS = "localhost/brokerwire-rollups:e2e"
BUILD_SECONDS = 900


def bring_images(walk: Walk) -> None:
    """The agent's, the one of the broker and its clients, and what holds a pod's namespaces."""
    _build(AGENT)
    for image in (AGENT, "localhost/brokerwire-base:bookworm"):
        walk.cluster.load(image)
    if _pause() is None:
        run("podman", "pod", "create", "--name", "brokerwire-pause")
        run("podman", "pod", "rm", "brokerwire-pause")
    pause = _pause()
    assert pause is not None
    walk.cluster.load(pause, "localhost/pause:1")
    walk.say("the images are on the node")


def bring_rollups(walk: Walk) -> None:
    """The rollups', which is fifteen times the agent's."""
    _build(ROLLUPS, "--rollups")
    walk.say("rollups: the image is built")
    walk.cluster.load(ROLLUPS)
    walk.say("rollups: the image is on the node")


def bring_definitions(walk: Walk) -> None:
    """The Prometheus operator's definitions, without the operator."""
    for name in ("podmonitors", "servicemonitors", "prometheusrules"):
        path = CACHE / "kubernetes" / "crds" / f"monitoring.coreos.com_{name}.yaml"
        walk.cluster.kubectl("apply", "--server-side", "-f", path)
    walk.say("the Prometheus operator's definitions are there")


def _build(tag: str, *flags: str) -> None:
    program = REPOSITORY / "tools" / "build_image.sh"
    run(program, *flags, "--tag", tag, "--tool", "podman", timeout=BUILD_SECONDS)


def _pause() -> str | None:
    images = run("podman", "images", "--format", "{{.Repository}}:{{.Tag}}").splitlines()
    return next((each for each in images if "podman-pause" in each), None)
