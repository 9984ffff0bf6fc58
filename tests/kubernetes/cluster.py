"""A real single-node Kubernetes for the walk: started, spoken to, and taken away again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tests.kubernetes.troubles import troubles

if TYPE_CHECKING:
    from collections.abc import Callable

REPOSITORY = Path(__file__).parents[2]
SCRIPTS = REPOSITORY / "tools" / "kubernetes"
CACHE = Path(os.environ.get("BROKERWIRE_CACHE") or REPOSITORY / ".cache")
SOCKET = "/run/brokerwire-containerd/containerd.sock"
SETTINGS = REPOSITORY / "image" / "small-machine.conf"


def run(*command: str | Path, text: str | None = None, timeout: float = 300) -> str:
    """Run a program; what it wrote, or an AssertionError with its complaint."""
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        input=text,
        timeout=timeout,
        check=False,
        env={**os.environ, "CONTAINERS_CONF": str(SETTINGS)},
    )
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


def wait_for(what: str, holds: Callable[[], Any], seconds: float = 180) -> Any:
    """Wait until something is true and return it; what went wrong last is told at the end."""
    end = time.monotonic() + seconds
    problem: BaseException | None = None
    while time.monotonic() < end:
        try:
            found = holds()
            if found:
                return found
        except (AssertionError, OSError, LookupError, ValueError) as error:
            problem = error
        time.sleep(1)
    raise AssertionError(f"{what}: not within {seconds:g} s; {problem}")


class Cluster:
    """The node in `folder`; `kubectl` and `helm` are its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = Path(os.environ.get("BIN") or CACHE / "kubernetes" / "bin")
        self.kubeconfig = folder / "kubeconfig"

    def __enter__(self) -> Self:
        os.environ.update(
            FOLDER=str(self.folder), BIN=str(self.bin), KUBECONFIG=str(self.kubeconfig)
        )
        try:
            run(SCRIPTS / "up.sh")
        except BaseException:
            # Some of it may run already, and nobody calls __exit__. Where the script refused to begin,
            # there is no folder, and what it would take down is another's.
            if self.folder.exists():
                self._take_down()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            for text in troubles(self.kubectl):
                print(text, end="\n\n", file=sys.stderr)
        self._take_down()

    def _take_down(self) -> None:
        subprocess.run([SCRIPTS / "down.sh"], check=False, timeout=300)

    def kubectl(self, *arguments: str | Path, text: str | None = None) -> str:
        return run(self.bin / "kubectl", *arguments, text=text)

    def get(self, kind: str, name: str, namespace: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            self.kubectl("get", kind, name, "--namespace", namespace, "--output", "json")
        )
        return found

    def pod(self, label: str, namespace: str) -> dict[str, Any]:
        """Return the one pod with a label that is not on its way out."""
        listed = json.loads(
            self.kubectl("get", "pods", "-l", label, "--namespace", namespace, "-o", "json")
        )
        (found,) = [each for each in listed["items"] if "deletionTimestamp" not in each["metadata"]]
        return found

    def ready_pod(self, label: str, namespace: str) -> dict[str, Any]:
        """Wait until that pod is ready."""

        def ready() -> dict[str, Any] | None:
            found = self.pod(label, namespace)
            conditions = {each["type"]: each["status"] for each in found["status"]["conditions"]}
            return found if conditions.get("Ready") == "True" else None

        made: dict[str, Any] = wait_for(f"{label} to be ready", ready)
        return made

    def load(self, image: str, name: str = "") -> None:
        """Bring an image of podman's onto the node: there is no registry."""
        archive = self.folder / "image.tar"
        run("podman", "tag", image, name or image)
        run("podman", "save", "--quiet", "--format", "oci-archive", "-o", archive, name or image)
        run(self.bin / "ctr", "-a", SOCKET, "-n", "k8s.io", "images", "import", archive)
        archive.unlink()
