"""The landing page: one self-contained document that says it all without a script.

The script only fetches the page again and puts the new parts in place of the old ones, so there is
one renderer. Nothing in it makes HTML from text.
"""

from __future__ import annotations

__all__ = ["page_policy", "render_frame", "render_page"]

from base64 import b64encode
from functools import cache
from importlib import resources
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

# Only for what the page brings along: nothing is loaded from anywhere, and text cannot be made
# into elements by script (trusted types).
_POLICY = (
    "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}';"
    " connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_API = ("/api/v1/connections", "/api/v1/findings", "/api/v1/sources")


@cache
def page_policy() -> str:
    """Return the Content-Security-Policy of the page: its own script and style, by their hash."""
    return _POLICY.format(script=_hash("page.js"), style=_hash("page.css"))


def render_page(
    snapshot: Snapshot, telemetry_path: str, *, stale: bool = False, base: str = ""
) -> bytes:
    """Render a snapshot; `base` is the path above its API, where it is one of several."""
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
    return render_frame(_header(document, telemetry_path, base), main)


def render_frame(header: Markup, main: Markup) -> bytes:
    """Render what every page has around its own: style, script, title."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", "brokerwire"),
        element("link", rel="icon", href="data:,"),
        element("style", Markup(_asset("page.css"))),
    )
    body = element("body", header, main, element("script", Markup(_asset("page.js"))))
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n".encode()


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
            element("span", "", id="live", role="status"),
            id="as-of",
        ),
        element("nav", *links, aria_label="Endpoints"),
    )


@cache
def _asset(name: str) -> str:
    return resources.files("exporter.web").joinpath("assets", name).read_text("utf-8")


def _hash(name: str) -> str:
    import hashlib

    return b64encode(hashlib.sha256(_asset(name).encode()).digest()).decode()
