"""The section `networks`: which network namespaces are watched."""

from __future__ import annotations

__all__ = ["NetworkSettings"]

from dataclasses import dataclass
from typing import Literal

_SHORTEST_LOOK = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings:
    """Which network namespaces are watched. `follow: all` is for one agent on a whole node.

    It needs the host's PID namespace, CAP_SYS_ADMIN, CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH:
    docs/install.md says what that costs.
    """

    follow: Literal["own", "all"] = "own"
    """`own`: the namespace that the agent is in; `all`: every one that has a client of Kafka."""
    interval: float = 10.0
    """How often to look for new namespaces, and for clients in namespaces without any."""
    max_networks: int = 100
    """Maximum number of watched namespaces with clients; more are only counted."""
    pod_logs: str = "/var/log/pods"
    """The kubelet's log directory, whose names contain namespace and name of each pod."""

    def __post_init__(self) -> None:
        if self.interval < _SHORTEST_LOOK:
            raise ValueError("`interval` must be 1s or more: each look is at all processes")
