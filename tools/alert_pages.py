"""What rules/ and docs/runbooks/ repeat of the alerts, written from their one description."""

from __future__ import annotations

__all__ = ["pages"]

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from exporter.alerts.catalogue import ALERTS
from exporter.alerts.render import alerts_text, recording_text
from exporter.alerts.settings import RuleSettings
from exporter.config.text import yaml_from_settings
from exporter.text import written_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exporter.alerts.spec import AlertSpec

REPOSITORY = Path(__file__).parent.parent
RULES = REPOSITORY / "rules"
RUNBOOKS = REPOSITORY / "docs" / "runbooks"
END = "<!-- end -->"
_FIRST_SECTION = "## What it means"
_TITLES = {
    "brokerwire.waste": "Wasted connections",
    "brokerwire.brokers": "Brokers",
    "brokerwire.churn": "Churn",
    "brokerwire.agent": "brokerwire itself",
}


def pages() -> Iterator[tuple[Path, str]]:
    """Give each file that repeats something of the alerts, and what is to be in it."""
    settings = RuleSettings()
    yield RULES / "alerts.yaml", alerts_text(settings)
    yield RULES / "recording.yaml", recording_text(settings)
    readme = (RULES / "README.md").read_text("utf-8")
    readme = _filled(readme, "settings", f"```yaml\n{yaml_from_settings(settings)}```")
    yield RULES / "README.md", _filled(readme, "alerts", _table())
    index = (RUNBOOKS / "README.md").read_text("utf-8")
    yield RUNBOOKS / "README.md", _filled(index, "alerts", _index())
    for alert in ALERTS:
        page = RUNBOOKS / f"{alert.runbook}.md"
        text = page.read_text("utf-8") if page.exists() else _FIRST_SECTION
        _, section, rest = text.partition(_FIRST_SECTION)
        yield page, f"{_head(alert)}{section}{rest}"


def _head(alert: AlertSpec) -> str:
    return f"# {alert.name}\n\n{alert.summary}.\nSeverity: {alert.severity}.\n\n"


def _filled(page: str, name: str, text: str) -> str:
    """Put a text between the markers of that name."""
    start = f"<!-- generated: {name} -->\n"
    before, marker, rest = page.partition(start)
    if not marker or END not in rest:
        raise SystemExit(f"a page has no markers {start.strip()} and {END}")
    return f"{before}{start}\n{text}\n\n{END}{rest.partition(END)[2]}"


def _table() -> str:
    lines = ["| alert | severity | `for` | `keep_firing_for` | its labels |", "| --- " * 5 + "|"]
    for alert in ALERTS:
        cells = (
            f"[{alert.name}](../docs/runbooks/{alert.runbook}.md)",
            str(alert.severity),
            written_duration(alert.fire_after.seconds),
            written_duration(alert.keep_firing_for.seconds),
            " ".join(f"`{label}`" for label in alert.labels),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _index() -> str:
    parts = []
    for group, alerts in groupby(ALERTS, key=lambda alert: alert.group):
        rows = [
            f"| [{alert.name}]({alert.runbook}.md) | {alert.severity} | {alert.summary}. |"
            for alert in alerts
        ]
        head = f"## {_TITLES[group]}\n\n| alert | severity | |\n| --- | --- | --- |"
        parts.append("\n".join([head, *rows]))
    return "\n\n".join(parts)
