"""The metrics page that a pod's annotations name: `prometheus.io/port`, `path`, `scheme`, `scrape`.

Kubernetes' downward API shows each annotation as a file; one that the pod does not have is empty.
Whoever writes the pod chooses the text, so it is a hint: one page, on the pod's own loopback
address, never the agent's own. No port is probed.
"""

from __future__ import annotations

__all__ = ["PodAnnotations", "page_of_annotations"]

import logging
import re
from typing import TYPE_CHECKING

from exporter.clients.declared_pages import CHECK_SECONDS, DeclaredPage
from exporter.config.settings import HIGHEST_PORT, JavaSourceSettings
from exporter.errors import SourceDecodeError, SourceError, SourceUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

log = logging.getLogger("brokerwire.sources")

NAMES = ("port", "path", "scheme", "scrape")
LONGEST = 256
_PATH = re.compile(r"/[A-Za-z0-9_.~/-]*")
_DEFAULT_PATH = "/metrics"


def page_of_annotations(
    annotations: Mapping[str, str], own_ports: Collection[int]
) -> DeclaredPage | None:
    """Return the page that the annotations name; None where they name none, or the agent's own.

    Raises:
        SourceDecodeError: they name one that cannot be read.
    """
    port, path, scheme, scrape = (annotations[name].strip() for name in NAMES)
    if not port or scrape == "false":
        return None
    if not (port.isascii() and port.isdecimal() and 0 < int(port) <= HIGHEST_PORT):
        raise _wrong("port", port, f"a number from 1 to {HIGHEST_PORT}")
    if path and not _PATH.fullmatch(path):
        raise _wrong("path", path, "a path such as /actuator/prometheus, without a query")
    if scheme not in ("", "http"):
        raise _wrong("scheme", scheme, "http; a page with TLS belongs in sources.java")
    if int(port) in own_ports:
        return None
    settings = JavaSourceSettings(
        name=f"annotation:{int(port)}", url=f"http://127.0.0.1:{int(port)}{path or _DEFAULT_PATH}"
    )
    named = f"prometheus.io/port {int(port)}" + (f", prometheus.io/path {path}" if path else "")
    return DeclaredPage(settings, None, f"pod annotation {named}")


def _wrong(name: str, value: str, must: str) -> SourceDecodeError:
    return SourceDecodeError(f"pod annotation prometheus.io/{name} must be {must}, not {value!r}")


class PodAnnotations:
    """Follows the annotations, which may change while the pod runs."""

    def __init__(self, folder: str, own_ports: Collection[int], clock: Callable[[], float]) -> None:
        self._folder = folder
        self._own_ports = own_ports
        self._clock = clock
        self._check_at = float("-inf")
        self._error: str | None = None
        self._found: DeclaredPage | None = None
        self.page: DeclaredPage | None = None
        """The page that is read now."""

    def follow(self, *, others: bool) -> tuple[DeclaredPage | None, DeclaredPage | None]:
        """Return the page to read no longer, and the page to read from now on.

        With `others`, pages that processes declare, this one is not read: it may show the same
        clients, which would count twice.
        """
        now = self._clock()
        if now >= self._check_at:
            self._check_at = now + CHECK_SECONDS
            self._found = self._look()
        before, wanted = self.page, None if others else self._found
        if wanted == before:
            return None, None
        self.page = wanted
        if wanted is not None:
            log.info(
                "the pod's annotations name a metrics page",
                extra={"source": wanted.settings.name, "url": wanted.settings.url},
            )
        return before, wanted

    def _look(self) -> DeclaredPage | None:
        try:
            texts = {name: self._text(name) for name in NAMES}
            page, error = page_of_annotations(texts, self._own_ports), None
        except SourceError as problem:
            page, error = None, str(problem)
        if error is not None and error != self._error:
            log.warning("the pod's annotations name no metrics page", extra={"error": error})
        self._error = error
        return page

    def _text(self, name: str) -> str:
        path = f"{self._folder}/{name}"
        try:
            with open(path, "rb") as file:  # noqa: PTH123 - a Path would say no more
                body = file.read(LONGEST + 1)
        except FileNotFoundError:
            if name == "port":
                raise SourceUnavailableError(
                    f"sources.pod_annotations: there is no file {path!r}; mount the annotation"
                    " prometheus.io/port there by the downward API"
                ) from None
            return ""
        except OSError as error:
            raise SourceUnavailableError(
                f"sources.pod_annotations: cannot read {path!r}: {error.strerror}"
            ) from error
        if len(body) > LONGEST:
            raise SourceDecodeError(
                f"pod annotation prometheus.io/{name} is longer than {LONGEST} bytes"
            )
        return body.decode(errors="replace")
