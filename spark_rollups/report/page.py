"""The report as one page that needs nothing but itself: the templates, and what they ask for."""

from __future__ import annotations

__all__ = ["render"]

import re
from collections import defaultdict
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from spark_rollups.report import charts, words
from spark_rollups.report.digest import HOUR_MS, OTHER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_rollups.report.digest import Cohort, Digest

# By its package and not by a path: on a cluster all this comes out of a zip.
_TEMPLATES: Final = resources.files("spark_rollups.report").joinpath("templates")
_SECTIONS: Final = (
    ("brokers", "Load of the brokers"),
    ("savings", "What to fix"),
    ("wasters", "Who wastes most"),
    ("held", "Connections over time"),
    ("seen", "Coverage"),
)
_LONGEST: Final = 2000
_MOST_COHORTS: Final = 12
_LEAST_GAIN: Final = 0.1
"""Connections a client, on average over the day, that an update must save to be worth a word."""


def render(digest: Digest, runbooks: str | None = None) -> str:
    """Make the page. Pure: the same digest is the same page, to the last byte.

    `runbooks` is the address of a runbook, with `{alert}` for its name.
    """
    templates = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        loader=FunctionLoader(lambda name: _TEMPLATES.joinpath(name).read_text("utf-8")),
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "amount": words.amount,
        "percent": words.percent,
        "fewer": words.fewer,
        "reason": words.reason_words,
        "when": words.when,
        "name": words.printable,
    }
    given: dict[str, Any] = {
        "digest": digest,
        "runbooks": runbooks,
        "charts": charts,
        "words": words,
        "share": _share,
        "versions": worst_versions(digest.cohorts),
        "updates": updates,
        "HOUR_MS": HOUR_MS,
        "OTHER": OTHER,
    }
    rendered = (
        (name, title, templates.get_template(f"{name}.html.j2").render(given))
        for name, title in _SECTIONS
    )
    # A section that has nothing to say is left out.
    sections = [(name, title, Markup(html)) for name, title, html in rendered if html.strip()]  # noqa: S704 -- it was escaped when it was rendered
    style = Markup(_TEMPLATES.joinpath("report.css").read_text("utf-8"))  # noqa: S704 -- ours
    page: str = templates.get_template("page.html.j2").render(given, sections=sections, style=style)
    return f"{page}\n"


def worst_versions(cohorts: Sequence[Cohort]) -> list[Cohort]:
    """Return the versions that waste most for each of their clients."""
    known = [cohort for cohort in cohorts if cohort.clients and cohort.library]
    known.sort(key=lambda cohort: -cohort.waste / cohort.clients)
    return known[:_MOST_COHORTS]


def updates(cohorts: Sequence[Cohort]) -> list[str]:
    """Say which versions an update would help: those with more left open than the newest one."""
    by_library: dict[str, list[tuple[tuple[int, ...], Cohort]]] = defaultdict(list)
    for cohort in cohorts:
        known = cohort.clients and cohort.library
        if known and re.fullmatch(r"\d{1,6}(\.\d{1,6}){1,3}", cohort.library_version or ""):
            version = tuple(map(int, str(cohort.library_version).split(".")))
            by_library[str(cohort.library)].append((version, cohort))
    says = []
    for library, found in sorted(by_library.items()):
        newest = max(found, key=lambda each: each[0])
        best = max(each.bootstrap_waste / each.clients for v, each in found if v == newest[0])
        older = {
            str(each.library_version)
            for version, each in found
            if version < newest[0] and each.bootstrap_waste / each.clients > best + _LEAST_GAIN
        }
        if older:
            names = ", ".join(sorted(older))
            name = words.printable(library, 30)
            says.append(f"Update {name} {names} to {newest[1].library_version}.")
    return says


def _shown(value: Any) -> Any:
    """Make whatever a template prints harmless; missing is a dash, never nothing or zero."""
    if value is None or (isinstance(value, str) and not hasattr(value, "__html__")):
        return words.printable(value, _LONGEST)
    return value


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None
