"""The colours of the agent's own page, so that a class looks the same wherever it is shown."""

from __future__ import annotations

__all__ = ["CLASS_COLOURS", "HUES"]

import re
from importlib.resources import files

from exporter.model import ConnectionClass

_STYLE = files("exporter.web").joinpath("static/page.css").read_text("utf-8")
# The first `:root` is the light page's: its hues are dark enough to be seen on white, and Grafana's
# dark theme lets them be seen as well; those of the dark page vanish on white.
_ROOT = _STYLE.partition("}")[0]

HUES: dict[str, str] = dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6});", _ROOT))
"""Colours by their names on the page."""

CLASS_COLOURS: dict[str, str] = {
    name: HUES[hue]
    for names, hue in re.findall(
        r"^((?:\.\w+,? ?)+)\{ --hue: var\(--(\w+)\); \}", _STYLE, re.MULTILINE
    )
    for name in re.findall(r"\w+", names)
    if name in set(ConnectionClass)
}
"""The colour of each connection class."""
