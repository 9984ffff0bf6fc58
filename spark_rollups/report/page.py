"""The whole report: one document that needs nothing but itself, and the drawings as files."""

from __future__ import annotations

__all__ = ["Report", "render"]

from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

from spark_rollups.report import broker_sections, fleet_sections, savings_sections
from spark_rollups.report.markup import Markup, element
from spark_rollups.report.words import when

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_rollups.report.digest import Digest

# By its package and not by a path: on a cluster all this comes out of a zip.
_STYLE = resources.files("spark_rollups.report").joinpath("report.css")
# Nothing is loaded and nothing runs, whatever a name says.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_ORDER = (
    fleet_sections.headline,
    broker_sections.brokers,
    savings_sections.savings,
    savings_sections.wasters,
    fleet_sections.held,
    broker_sections.surges,
    savings_sections.cohorts,
    broker_sections.weeks,
    savings_sections.findings,
    fleet_sections.seen,
)


@dataclass(frozen=True, slots=True)
class Report:
    """The finished document, and its drawings by name, each drawn as a picture when called."""

    html: str
    pictures: dict[str, Callable[[], bytes]]


def render(digest: Digest) -> Report:
    """Make the report. Pure: the same digest is the same report, to the last byte."""
    sections = [made for make in _ORDER if (made := make(digest)) is not None]
    contents = [
        element("li", element("a", each.title, href=f"#{each.name}"))
        for each in sections
        if each.title
    ]
    period = f"{when(digest.begin)} to {when(digest.end)} UTC"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("title", f"Kafka connections of the fleet, {digest.end:%d %b %Y}"),
        element("style", Markup(_STYLE.read_text("utf-8"))),
    )
    body = element(
        "body",
        element(
            "header",
            element("h1", "Kafka connections of the fleet"),
            element("p", period),
            element("nav", element("ul", *contents), aria_label="Contents"),
        ),
        element("main", *(each.html for each in sections)),
        element("footer", element("p", "Made by brokerwire-rollups report.")),
    )
    html = f"<!doctype html>\n{element('html', head, body, lang='en')}\n"
    return Report(html, {f.name: f.png for each in sections for f in each.figures})
