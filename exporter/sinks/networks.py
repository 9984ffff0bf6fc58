"""What the server answers for an agent that watches all network namespaces of a machine.

One page of metrics, with the labels `network`, `namespace` and `pod` on what is a namespace's; and
for each namespace the page and the API of a sidecar, under /networks/NUMBER.
"""

from __future__ import annotations

__all__ = ["NetworksApplication", "networks_document", "render_list"]

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import exporter
from exporter.sinks.application import (
    DOCUMENTS,
    HEALTHY,
    JSON,
    READY,
    Application,
    html_response,
)
from exporter.sinks.catalogue import CATALOGUE
from exporter.sinks.document import SCHEMA_VERSION, encode
from exporter.sinks.exposition import (
    END,
    GZIP_FROM_BYTES,
    Exposition,
    Format,
    choose_format,
    compressed,
    head_of,
)
from exporter.sinks.families import is_stale
from exporter.sinks.markup import Markup, element
from exporter.sinks.messages import Response, text_response
from exporter.sinks.page import render_frame, render_page
from exporter.sinks.page_parts import MOST_ROWS, number, rest, section, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from concurrent.futures import Executor

    from exporter.settings import WebSettings
    from exporter.sinks.application import Options
    from exporter.sinks.catalogue import MetricSpec
    from exporter.sinks.messages import Request
    from exporter.snapshot import NetworkView

NETWORKS = "/api/v1/networks"
_PLACE = re.compile(r"(/networks/([0-9]{1,20}))(/.*)")
# Scrapes that come closer together than this get one page.
_KEPT_SECONDS = 1.0

_Labels = tuple[str, str, str]


class NetworksApplication(Application):
    """Routes requests; `networks` gives what is known now, None before the first look."""

    def __init__(
        self,
        settings: WebSettings,
        networks: Callable[[], Sequence[NetworkView] | None],
        options: Options,
        executor: Executor,
    ) -> None:
        super().__init__(settings, lambda: None, None, options, executor)
        self._networks = networks
        self._limits = options.limits
        self._parts: dict[_Labels, Exposition] = {}
        self._kept: dict[tuple[Format, bool], tuple[float, bytes]] = {}

    def _handler(self, path: str) -> str:
        place = _PLACE.fullmatch(path)
        if place is not None:
            return "page" if place[3] == "/" else "api" if place[3] in DOCUMENTS else "other"
        if path == NETWORKS:
            return "api"
        return "other" if path in DOCUMENTS else super()._handler(path)

    async def _response(self, request: Request, body: bytes) -> Response:
        del body
        networks, now = self._networks(), self._clock()
        path = request.path
        if path == self._telemetry_path:
            return self._all_metrics(request, networks or (), now)
        if path == HEALTHY:
            healthy = self._is_alive()
            words = "healthy" if healthy else "new network namespaces are not looked for"
            return text_response(
                HTTPStatus.OK if healthy else HTTPStatus.SERVICE_UNAVAILABLE, words
            )
        if networks is None:
            return text_response(HTTPStatus.SERVICE_UNAVAILABLE, "not ready: no look is done yet")
        if path == READY:
            return text_response(HTTPStatus.OK, "ready")
        if path == NETWORKS:
            return Response(body=encode(networks_document(networks, now)), content_type=JSON)
        if path == "/":
            return html_response(render_list(networks, self._telemetry_path, now))
        return self._of_place(path, networks, now)

    def _of_place(self, path: str, networks: Sequence[NetworkView], now: float) -> Response:
        place = _PLACE.fullmatch(path)
        base, wanted, below = place.groups() if place is not None else ("", "", "")
        for view in networks:
            if view.network == wanted:
                stale = is_stale(view.snapshot, now)
                if below == "/":
                    return html_response(
                        render_page(view.snapshot, self._telemetry_path, stale=stale, base=base)
                    )
                return Response(body=DOCUMENTS[below](view.snapshot, stale), content_type=JSON)
        return text_response(HTTPStatus.NOT_FOUND, "no such network now; / lists what there is")

    def _all_metrics(
        self, request: Request, networks: Sequence[NetworkView], now: float
    ) -> Response:
        fmt = choose_format(request.headers.get("accept", ""))
        packed = "gzip" in request.headers.get("accept-encoding", "")
        headers: tuple[tuple[str, str], ...] = (("Vary", "Accept, Accept-Encoding"),)
        kept = self._kept.get((fmt, packed))
        if kept is None or now - kept[0] >= _KEPT_SECONDS:
            body = self._rendered(networks, now, fmt)
            if packed and len(body) >= GZIP_FROM_BYTES:
                body = compressed(body)
            kept = self._kept[fmt, packed] = (now, body)
        if kept[1].startswith(b"\x1f\x8b"):
            headers = (*headers, ("Content-Encoding", "gzip"))
        return Response(body=kept[1], content_type=fmt.value, headers=headers)

    def _rendered(self, networks: Sequence[NetworkView], now: float, fmt: Format) -> bytes:
        """Put the samples of all networks under one head for each metric."""
        found: dict[str, list[str]] = {}
        self._add(found, self._exposition.samples(None, now))
        there = {_labels(view): view for view in networks}
        self._parts = {
            labels: self._parts.get(labels) or self._part(view) for labels, view in there.items()
        }
        for labels, view in there.items():
            self._add(found, self._parts[labels].samples(view.snapshot, now))
        lines: list[str] = []
        for spec in CATALOGUE:
            if spec.name in found:
                lines.append(head_of(spec, fmt))
                lines += found[spec.name]
        if fmt is Format.OPENMETRICS:
            lines.append(END)
        return "".join(lines).encode()

    @staticmethod
    def _add(found: dict[str, list[str]], samples: Iterable[tuple[MetricSpec, list[str]]]) -> None:
        for spec, lines in samples:
            found.setdefault(spec.name, []).extend(lines)

    def _part(self, view: NetworkView) -> Exposition:
        return Exposition(self._limits, constant=view.labels, of_process=False)


def _labels(view: NetworkView) -> _Labels:
    return (view.network, view.namespace, view.pod)


def networks_document(networks: Sequence[NetworkView], now: float) -> dict[str, Any]:
    """List the namespaces that are watched."""
    return {
        "schema_version": SCHEMA_VERSION,
        "version": exporter.__version__,
        "networks": [
            {
                "network": view.network,
                "namespace": view.namespace or None,
                "pod": view.pod or None,
                "pod_uid": view.pod_uid or None,
                "path": f"/networks/{view.network}/",
                "connections": len(view.snapshot.connections),
                "findings": len(view.snapshot.findings),
                "stale": is_stale(view.snapshot, now),
            }
            for view in sorted(networks, key=_labels)
        ],
    }


def render_list(networks: Sequence[NetworkView], telemetry_path: str, now: float) -> bytes:
    """Render the list of namespaces, those with findings first."""
    listed = networks_document(networks, now)["networks"]
    listed.sort(key=lambda each: -each["findings"])
    rows = [_row(each) for each in listed[:MOST_ROWS]]
    head = ("Namespace", "Pod", "Network", "Held", "Findings")
    body = (
        table(head, rows)
        if rows
        else element("p", "No network namespace with a client of Kafka.", class_="quiet")
    )
    links = (telemetry_path, NETWORKS, HEALTHY, READY)
    header = element(
        "header",
        element("h1", "brokerwire ", element("small", exporter.__version__)),
        element("p", "All network namespaces of this machine that have a client of Kafka."),
        element("nav", *(element("a", path, href=path) for path in links), aria_label="Endpoints"),
    )
    main = element("main", section("networks", "Networks", body, rest(len(listed))))
    return render_frame(header, main)


def _row(each: dict[str, Any]) -> Markup:
    return element(
        "tr",
        element("td", each["namespace"] or ""),
        element("td", element("a", each["pod"] or "the machine's own", href=each["path"])),
        element("td", element("a", each["network"], href=each["path"])),
        number(each["connections"]),
        number(each["findings"]),
    )
