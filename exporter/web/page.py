"""The page: a frame for its scripts and, for those without scripts, everything in words.

Text becomes elements here or by the browser's `textContent`, never by parsing HTML.
"""

from __future__ import annotations

__all__ = ["PAGE_POLICY", "render_frame", "render_page"]

import socket
from typing import TYPE_CHECKING, Any

from exporter.text import duration
from exporter.web.document import connections_document
from exporter.web.markup import Markup, element
from exporter.web.page_connections import connections_section, most_wrong
from exporter.web.page_sections import (
    agent_section,
    expected_section,
    findings_section,
    sources_section,
    summary_section,
)
from exporter.web.words import clock_time

if TYPE_CHECKING:
    from exporter.snapshot import Snapshot

# Nothing is loaded from another host, no script or style stands in the page itself, and text
# cannot be made into elements by a script (trusted types).
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"
)
_API = ("/api/v1/connections", "/api/v1/findings", "/api/v1/sources", "/api/v1/history")


def render_page(
    snapshot: Snapshot,
    telemetry_path: str,
    *,
    stale: bool = False,
    base: str = "",
    place: str | None = None,
    runbooks: str = "",
) -> bytes:
    """Render a snapshot.

    `base` is the path above its API, where it is one of several, and `place` says where that is;
    `runbooks` is the address of a runbook.
    """
    shown = most_wrong(snapshot.connections)
    document = connections_document(snapshot, stale=stale, only=shown)
    main = element(
        "main",
        summary_section(document),
        findings_section(document["findings"]),
        expected_section(document["expected"]),
        connections_section(document["connections"], document["summary"]["connections"]),
        sources_section(document["sources"]),
        agent_section(document["agent"], document["processes"]),
    )
    words = element("noscript", _header(document, telemetry_path, base), main)
    up = "../" * base.count("/")
    app = element(
        "div",
        id="app",
        data_place=socket.gethostname() if place is None else place,
        data_version=document["version"],
        data_up=up,
        data_runbooks=runbooks,
    )
    script = element("script", type="module", src=f"{up}assets/page.js")
    return render_frame(app, words, script, up=up)


def render_frame(*body: Markup, up: str = "") -> bytes:
    """Render what every page has around its own; `up` leads to the agent's `/`."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", "brokerwire"),
        element("link", rel="icon", href="data:,"),
        element("link", rel="stylesheet", href=f"{up}assets/page.css"),
    )
    return f"<!doctype html>\n{element('html', head, element('body', *body), lang='en')}\n".encode()


def _header(document: dict[str, Any], telemetry_path: str, base: str) -> Markup:
    up = ("/",) if base else ()
    paths = (*up, telemetry_path, *(base + path for path in _API), "/-/healthy", "/-/ready")
    links = [element("a", path, href=path) for path in paths]
    stale = document["stale"]
    state = (
        element("strong", "out of date: the sockets were not read lately", class_="bad")
        if stale
        else element("span", f"read every {duration(document['interval_seconds'])}", class_="quiet")
    )
    return element(
        "header",
        element("h1", "brokerwire ", element("small", document["version"])),
        element(
            "p",
            "Kafka client connections as of ",
            element("time", clock_time(document["time"]), datetime=document["time"]),
            ", ",
            state,
        ),
        element("nav", *links, aria_label="Endpoints"),
    )
