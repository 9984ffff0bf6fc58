"""The fleet's metrics to a Pushgateway: the way to Prometheus for a job that ends."""

from __future__ import annotations

__all__ = ["push"]

import http.client
import queue
import threading
import urllib.error
import urllib.request
from typing import Final

from spark_rollups.errors import PushError
from spark_rollups.report.words import printable

JOB: Final = "brokerwire-rollups"
SECONDS: Final = 30.0
_MOST_WORDS: Final = 300


def push(text: str, url: str, *, seconds: float = SECONDS) -> None:
    """Put metrics in place of those that were pushed before, so that what is no more also goes.

    A URL without a group (`/metrics/job/NAME`) gets one.

    Raises:
        PushError: nobody answered within `seconds`, or not with yes.

    """
    group = url if "/metrics/job/" in url else f"{url.rstrip('/')}/metrics/job/{JOB}"
    outcome: queue.SimpleQueue[PushError | None] = queue.SimpleQueue()
    # The timeouts of the standard library are for each read: a byte a second would go on for ever.
    threading.Thread(
        target=lambda: outcome.put(_put(text, group, seconds)), name="push", daemon=True
    ).start()
    try:
        error = outcome.get(timeout=seconds)
    except queue.Empty:
        raise PushError(f"{group} did not answer in full within {seconds:g} s") from None
    if error is not None:
        raise error


def _put(text: str, group: str, seconds: float) -> PushError | None:
    try:
        request = urllib.request.Request(  # noqa: S310 -- the command line takes http and https only
            group, data=text.encode("utf-8"), method="PUT", headers={"Content-Type": "text/plain"}
        )
        with urllib.request.urlopen(request, timeout=seconds):  # noqa: S310
            return None
    except urllib.error.HTTPError as error:
        return PushError(f"{group} answered {error.code}: {_words(error)}")
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = printable(str(getattr(error, "reason", None) or error), _MOST_WORDS)
        return PushError(f"cannot push to {group}: {reason}; is it a Pushgateway's URL?")


def _words(error: urllib.error.HTTPError) -> str:
    """Return what the answer says, on one line: it may come from anybody who is at that address."""
    try:
        body = error.read(_MOST_WORDS).decode("utf-8", "replace").strip()
    except (OSError, http.client.HTTPException):
        body = ""
    return printable(body or str(error.reason), _MOST_WORDS)
