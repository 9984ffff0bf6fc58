"""The default agent id, stable across restarts."""

from __future__ import annotations

__all__ = ["own_identity"]

import re
import socket
from pathlib import Path

# The kubelet mounts /etc/hosts and others from the pod's own folder, whose name is the pod's uid.
_POD = re.compile(r"/pods/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/")


def own_identity(port: str, *, proc: str = "/proc") -> str:
    """Return the pod's uid, else the host's name with the port that this agent listens on."""
    try:
        mounts = Path(f"{proc}/self/mountinfo").read_text("utf-8", "replace")
    except OSError:
        mounts = ""
    pod = _POD.search(mounts)
    return f"pod:{pod[1]}" if pod is not None else f"host:{socket.gethostname()}:{port}"
