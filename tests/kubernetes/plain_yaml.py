"""The sidecar without Helm: examples/kubernetes as a Kustomize component."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import yaml

from tests.kubernetes.cluster import REPOSITORY
from tests.kubernetes.images import AGENT
from tests.kubernetes.objects import agent_config, application
from tests.kubernetes.said import say_classes
from tests.kubernetes.walk import SHOP

if TYPE_CHECKING:
    from tests.kubernetes.walk import Walk

NAME = "refunds"
IMAGE = "registry.example/brokerwire"


def kustomize(walk: Walk, servers: str) -> None:
    """Add the component to an application, and a configuration of the application's own."""
    folder = walk.folder / NAME
    shutil.copytree(REPOSITORY / "examples" / "kubernetes", folder / "component")
    text = application(walk.artifacts, servers, name=NAME, user=1000, pod={})
    (folder / "application.yaml").write_text(text)
    repository, _, tag = AGENT.rpartition(":")
    annotations = {"brokerwire/config": yaml.safe_dump(agent_config())}
    patch = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
    overlay = {
        "resources": ["application.yaml"],
        "components": ["component"],
        "images": [{"name": IMAGE, "newName": repository, "newTag": tag}],
        "patches": [{"target": {"kind": "Deployment"}, "patch": _with_name(patch)}],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    walk.cluster.kubectl("apply", "--kustomize", folder)
    pod = walk.cluster.ready_pod(f"app.kubernetes.io/name={NAME}", SHOP)
    (sidecar,) = pod["spec"]["initContainers"]
    assert (sidecar["name"], sidecar["image"]) == ("brokerwire", AGENT)
    walk.say("kustomize: the component put the sidecar into a Deployment")
    say_classes(walk, pod, "uid", "cgroup")
    walk.cluster.kubectl("delete", "--kustomize", folder)


def _with_name(patch: dict[str, object]) -> str:
    """A patch has to name something, and the target says what it is for."""
    head = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": NAME}}
    return yaml.safe_dump({**head, **patch})
