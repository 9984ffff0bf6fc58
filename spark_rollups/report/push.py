"""The fleet's metrics to a Pushgateway: the way to Prometheus for a job that ends."""

from __future__ import annotations

__all__ = ["push"]

import http.client
import urllib.error
import urllib.request
from typing import Final

from spark_rollups.errors import PushError

JOB: Final = "brokerwire-rollups"
_SECONDS: Final = 30
_MOST_WORDS: Final = 300


def push(text: str, url: str) -> None:
    """Put metrics in place of those that were pushed before, so that what is no more also goes.

    A URL without a group (`/metrics/job/NAME`) gets one.

    Raises:
        PushError: nobody answered, or not with yes.

    """
    group = url if "/metrics/job/" in url else f"{url.rstrip('/')}/metrics/job/{JOB}"
    request = urllib.request.Request(  # noqa: S310 -- the command line takes http and https only
        group, data=text.encode("utf-8"), method="PUT", headers={"Content-Type": "text/plain"}
    )
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS):  # noqa: S310
            pass
    except urllib.error.HTTPError as error:
        words = error.read(_MOST_WORDS).decode("utf-8", "replace").strip()
        raise PushError(f"{group} answered {error.code}: {words or error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise PushError(f"cannot push to {group}: {reason}; is it a Pushgateway's URL?") from error
