"""The pod of a process, by what the node says and not by what the pod says of itself.

Nothing is read inside of a container: there a symbolic link could make a label of any file. The
uid stands in the cgroup's path, else (a kubelet without cgroups for pods) in the source of what the
kubelet mounts into every container, neither of which a container chooses; the names stand in the
kubelet's folder of logs.
"""

from __future__ import annotations

__all__ = ["NOT_KNOWN", "Pod", "PodFinder"]

import os
import re
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

# kubepods/burstable/pod<uid>/<container>, or kubepods-burstable-pod<uid with _>.slice/... under
# systemd; the uid of a static pod is a hash without hyphens.
_POD = re.compile(
    r"[/-]pod([0-9a-f]{8}(?:[_-][0-9a-f]{4}){3}[_-][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?(?:/|$)"
)
_CONTAINER = re.compile(r"[/-]([0-9a-f]{64})(?:\.scope)?(?:/|$)")
# What the kubelet mounts from its own folder: /etc/hosts, volumes, the termination log.
_MOUNTED = re.compile(r"/pods/([0-9a-f-]{32,36})/(?:etc-hosts|volumes|containers)[ /]")
_SHORT_ID = 12
_FRESH_SECONDS = 5.0
# NAMESPACE_NAME_UID; neither namespace nor name can have an underscore.
_PARTS = 3


class Pod(NamedTuple):
    """What is known of it; empty text where it is not known."""

    uid: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def shown(self) -> str:
        """The name or, where the node does not provide it, the uid."""
        return self.name or self.uid


NOT_KNOWN = Pod()


class PodFinder:
    """Finds the pods of processes. Not for use by several threads."""

    def __init__(
        self,
        logs: str,
        *,
        proc: str = "/proc",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logs = logs
        self._proc = proc
        self._clock = clock
        self._names: Mapping[str, Pod] = {}
        self._read_at = float("-inf")

    def pod_of(self, pids: Iterable[int]) -> Pod:
        """Return the one pod of these processes; none where they are of several, or of no pod.

        A container outside of a cluster counts by the first digits of its id. A process that is in
        no container is the machine's, and so is the network then.
        """
        uids: set[str] = set()
        containers: set[str] = set()
        for pid in pids:
            path = self._lines_of(pid, "cgroup")
            container = _CONTAINER.search(path)
            found = _POD.search(path)
            if found is None and container is not None:
                found = _MOUNTED.search(self._lines_of(pid, "mountinfo"))
            if found is not None:
                uids.add(found[1].replace("_", "-"))
            elif container is not None:
                containers.add(container[1][:_SHORT_ID])
            elif path:
                return NOT_KNOWN
        if len(uids) == 1:
            (uid,) = uids
            return self._names_now(uid).get(uid, Pod(uid=uid))
        if not uids and len(containers) == 1:
            return Pod(uid=containers.pop())
        return NOT_KNOWN

    def _lines_of(self, pid: int, name: str) -> str:
        try:
            with open(f"{self._proc}/{pid}/{name}", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                return file.read().replace("\n", "/\n")
        except OSError:
            # It ended, or may not be looked into.
            return ""

    def _names_now(self, uid: str) -> Mapping[str, Pod]:
        if uid not in self._names and self._clock() - self._read_at >= _FRESH_SECONDS:
            self._read_at = self._clock()
            self._names = _names_in(self._logs)
        return self._names


def _names_in(folder: str) -> Mapping[str, Pod]:
    try:
        entries = os.listdir(folder)  # noqa: PTH208 - names are all that is wanted
    except OSError:
        # No kubelet, or another folder: the uid is what is known.
        return {}
    split = (entry.split("_") for entry in entries)
    return {
        parts[2]: Pod(uid=parts[2], namespace=parts[0], name=parts[1])
        for parts in split
        if len(parts) == _PARTS
    }
