"""The page's own scripts and style, as they are in the package."""

from __future__ import annotations

__all__ = ["asset_names", "asset_response"]

from functools import cache
from importlib import resources

from exporter.http.messages import Response

_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}


@cache
def asset_names() -> frozenset[str]:
    """Return what may be asked for."""
    return frozenset(
        each.name
        for each in resources.files("exporter.web").joinpath("static").iterdir()
        if each.name.rpartition(".")[2] in _TYPES
    )


def asset_response(name: str) -> Response:
    """Answer with one file of `asset_names`. It is read for each page: nothing is kept for it."""
    body = resources.files("exporter.web").joinpath("static", name).read_bytes()
    return Response(body=body, content_type=_TYPES[name.rpartition(".")[2]])
