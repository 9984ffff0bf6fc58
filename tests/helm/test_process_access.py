"""`sidecar.processAccess`: one value lets the sidecar read the application's processes, and says what it lacks."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.helm.tools import (
    application_chart,
    deployment_in,
    objects_of,
    render,
    run,
    sidecar_of,
    tool,
)

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.helm

SWITCH = "brokerwire.sidecar.processAccess"
OF_THE_POD = """\
  securityContext:
    runAsUser: {{ .Values.uid }}
    runAsGroup: {{ .Values.uid }}
"""
OF_THE_CONTAINER = """\
      securityContext:
        allowPrivilegeEscalation: false
"""


@pytest.fixture(scope="module")
def application(tmp_path_factory) -> Path:
    return application_chart(tmp_path_factory.mktemp("charts"))


def changed(application: Path, folder: Path, old: str, new: str) -> Path:
    """Copy the application with other text in its pod template."""
    chart = shutil.copytree(application, folder / "orders")
    template = chart / "templates" / "deployment.yaml"
    text = template.read_text()
    assert old in text
    head, _, tail = text.rpartition(old)
    template.write_text(f"{head}{new}{tail}")
    return chart


def opened(chart: Path, *settings: str) -> tuple[bool, int, int]:
    """Return whether processes are shared, and the sidecar's uid and gid."""
    text = render(chart, *(f"--set={each}" for each in (f"{SWITCH}=true", *settings)))
    return what_is_open(text)


def what_is_open(text: str) -> tuple[bool, int, int]:
    deployment = deployment_in(text)
    spec = deployment["spec"]["template"]["spec"]
    context = sidecar_of(deployment, "initContainers")["securityContext"]
    shared = spec.get("shareProcessNamespace", False)
    return shared, context["runAsUser"], context["runAsGroup"]


def refused(chart: Path, *settings: str) -> str:
    wanted = [f"--set={each}" for each in (f"{SWITCH}=true", *settings)]
    done = run(tool("helm"), "template", "bw", chart, *wanted)
    assert done.returncode != 0, done.stdout
    return done.stderr


def test_closed_without_the_value(application):
    assert what_is_open(render(application, f"--set={SWITCH}=false")) == (False, 65532, 65532)


def test_the_value_alone_gives_the_applications_ids_and_one_process_namespace(application):
    assert opened(application, "uid=1234") == (True, 1234, 1234)


def test_nothing_but_ids_and_namespace_changes(application):
    """No capability comes with it, and no other container changes."""
    texts = [render(application, f"--set={SWITCH}={each}") for each in ("true", "false")]
    documents = [objects_of(text) for text in texts]
    for objects in documents:
        (deployment,) = [each for each in objects if each["kind"] == "Deployment"]
        deployment["spec"]["template"]["spec"].pop("shareProcessNamespace", None)
        context = sidecar_of(deployment, "initContainers")["securityContext"]
        for key in ("runAsUser", "runAsGroup"):
            del context[key]
    assert documents[0] == documents[1]


def test_the_first_containers_ids_come_before_the_pods(application, tmp_path):
    """And a gid of 0 is a gid: images whose user has no entry in passwd run with it."""
    own = f"{OF_THE_CONTAINER}        runAsUser: 7\n        runAsGroup: 0\n"
    assert opened(changed(application, tmp_path, OF_THE_CONTAINER, own)) == (True, 7, 0)


def test_the_charts_ids_come_before_the_applications(application):
    ids = ("brokerwire.sidecar.runAsUser=42", "brokerwire.sidecar.runAsGroup=43")
    assert opened(application, *ids) == (True, 42, 43)


@pytest.mark.parametrize("key", ["runAsUser", "runAsGroup"])
def test_an_id_that_nobody_names_is_asked_for(application, tmp_path, key):
    """The kernel compares both: with one of them wrong the pod would be open, and nothing read."""
    without = OF_THE_POD.replace(f"    {key}: {{{{ .Values.uid }}}}\n", "")
    chart = changed(application, tmp_path, OF_THE_POD, without)
    assert f"its pod template has no {key}: set runAsUser and runAsGroup" in refused(chart)
    assert opened(chart, f"brokerwire.sidecar.{key}=5")[0]


def test_an_application_that_is_root_cannot_be_read(application):
    assert "the application runs as root" in refused(application, "uid=0")


def test_a_pod_with_the_hosts_processes_shares_none(application, tmp_path):
    """Kubernetes refuses a pod that asks for both."""
    chart = changed(application, tmp_path, OF_THE_POD, f"  hostPID: true\n{OF_THE_POD}")
    assert opened(chart) == (False, 1000, 1000)
