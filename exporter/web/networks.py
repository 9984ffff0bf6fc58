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
from exporter.http.messages import Response, text_response
from exporter.metrics.families import is_stale
from exporter.web.application import (
    ASSETS,
    DOCUMENTS,
    HEALTHY,
    JSON,
    READY,
    STREAM,
    Application,
    html_response,
)
from exporter.web.assets import asset_response
from exporter.web.document import encode
from exporter.web.fields import SCHEMA_VERSION
from exporter.web.markup import Markup, element
from exporter.web.page import render_frame, render_page
from exporter.web.page_parts import MOST_ROWS, number, rest, section, table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor

    from exporter.config.settings import WebSettings
    from exporter.http.messages import Request
    from exporter.metrics.collector import View
    from exporter.snapshot import NetworkView, Snapshot
    from exporter.web.application import Options

NETWORKS = "/api/v1/networks"
_PLACE = re.compile(r"(/networks/([0-9]{1,20}))(/.*)")
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

    def _handler(self, path: str) -> str:
        place = _PLACE.fullmatch(path)
        if place is not None:
            known = place[3] in DOCUMENTS or place[3] == STREAM
            return "page" if place[3] == "/" else "api" if known else "other"
        if path == NETWORKS:
            return "api"
        return "other" if path in DOCUMENTS or path == STREAM else super()._handler(path)

    async def _response(self, request: Request, body: bytes) -> Response:
        del body
        networks, now = self._networks(), self._clock()
        path = request.path
        if path == self._telemetry_path:
            return self._metrics(request)
        if path == HEALTHY:
            healthy = self._is_alive()
            words = "healthy" if healthy else "new network namespaces are not looked for"
            return text_response(
                HTTPStatus.OK if healthy else HTTPStatus.SERVICE_UNAVAILABLE, words
            )
        if path.startswith(ASSETS):
            return asset_response(path.removeprefix(ASSETS))
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
                if below == STREAM:
                    return self.events(base, lambda: self._snapshot_of(wanted))
                if below == "/":
                    page = render_page(
                        view.snapshot,
                        self._telemetry_path,
                        stale=stale,
                        base=base,
                        runbooks=self._runbooks,
                        place=" · ".join(_place_names(view)),
                    )
                    return html_response(page)
                return Response(body=DOCUMENTS[below](view.snapshot, stale), content_type=JSON)
        return text_response(HTTPStatus.NOT_FOUND, "no such network now; / lists what there is")

    def _snapshot_of(self, network: str) -> Snapshot | None:
        for view in self._networks() or ():
            if view.network == network:
                return view.snapshot
        return None

    def _views(self) -> Sequence[View]:
        networks = sorted(self._networks() or (), key=_labels)
        return [(view.labels, view.snapshot) for view in networks]


def _labels(view: NetworkView) -> _Labels:
    return (view.network, view.namespace, view.pod)


def _place_names(view: NetworkView) -> tuple[str, ...]:
    names = (view.pod, view.namespace, f"network {view.network}")
    return tuple(name for name in names if name)


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
