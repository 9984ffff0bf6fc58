"""Rules, runbooks, catalogue and findings say the same things by the same names."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from exporter.alerts.catalogue import ALERTS, ALERTS_BY_NAME
from exporter.alerts.churn import CAUSES
from exporter.alerts.settings import Thresholds
from exporter.cli import parser
from exporter.commands.rules import rule_settings_from_text
from exporter.findings import churn, findings, limits, watches
from exporter.metrics.catalogue import SPECS
from exporter.model import ClosedBy, ConnectionClass
from exporter.text import written_duration
from tools import alert_pages

REPOSITORY = Path(__file__).parents[2]
RULES = REPOSITORY / "rules"
RUNBOOKS = REPOSITORY / "docs" / "runbooks"
PAGES = sorted(page for page in RUNBOOKS.glob("*.md") if page.name != "README.md")

# What Prometheus adds, and what it knows of a target by itself.
OF_SCRAPE = {"cluster", "namespace", "pod", "job", "instance"}
OF_PROMETHEUS = {"up": set()}
SECTIONS = ["What it means", "How to see it", "Usual causes", "How to verify that it is gone"]


def rules() -> list[dict]:
    return [
        rule
        for name in ("alerts.yaml", "recording.yaml")
        for group in yaml.safe_load((RULES / name).read_text())["groups"]
        for rule in group["rules"]
    ]


RECORDED = {rule["record"] for rule in rules() if "record" in rule}


def queries_of(page: Path) -> list[str]:
    return re.findall(r"```promql\n(.*?)```", page.read_text(), re.DOTALL)


def expressions() -> list:
    told = [(rule.get("alert") or rule["record"], rule["expr"]) for rule in rules()]
    told += [(alert.name, alert.expression_if_given) for alert in ALERTS if alert.given]
    told += [
        (page.name, text) for page in [*PAGES, RULES / "README.md"] for text in queries_of(page)
    ]
    return [pytest.param(text, id=name) for name, text in told]


def series_in(expression: str) -> dict[str, str]:
    """The names of series, each with its matchers."""
    found = re.findall(
        r"(?<![\w:\"$])((?:kafka_client|brokerwire)_\w+|\w+:\w+:\w+|up)(?![\w:(])(?:\{([^}]*)\})?",
        expression,
    )
    return dict(found)


@pytest.mark.parametrize("expression", expressions())
def test_every_metric_and_label_is_in_the_catalogue(expression):
    labels = set(OF_SCRAPE)
    for name, matchers in series_in(expression).items():
        assert name in SPECS or name in RECORDED or name in OF_PROMETHEUS, name
        own = set(SPECS[name].labels) if name in SPECS else {"client_id", "client_kind", "process"}
        labels |= own
        for label, value in re.findall(r'(\w+)(?:=~|!~|!=|=)"([^"]*)"', matchers):
            assert label in own | OF_SCRAPE, f"{name} has no label {label}"
            known = CLOSED_SETS.get(label)
            assert known is None or set(value.split("|")) <= known, f"{label} is never {value}"
    assert series_in(expression)
    for names in re.findall(r"\b(?:by|without|on|ignoring) \(([^)]*)\)", expression):
        assert {name.strip() for name in names.split(",")} - {"$fleet", "$target"} <= labels


def finding_names() -> set[str]:
    """Every name that the core gives a finding, from its source: some are rare to meet."""
    text = "".join(
        Path(module.__file__).read_text() for module in (findings, churn, limits, watches)
    )
    of_classes = {alert.name for alert in ALERTS if alert.connection_class is not None}
    return set(re.findall(r'"((?:KafkaClient|Brokerwire)\w+)"', text)) | of_classes


CLOSED_SETS = {
    "class": set(ConnectionClass),
    "closed_by": set(ClosedBy),
    "finding": finding_names(),
}


def test_each_finding_is_an_alert_with_the_same_name():
    assert finding_names() <= set(ALERTS_BY_NAME)
    assert len(finding_names()) >= 16


def test_an_alert_that_reads_findings_is_known_by_its_field_and_not_by_its_text():
    for alert in ALERTS:
        assert alert.reads_findings == ("kafka_client_finding_connections" in alert.expression)


def test_what_a_findings_value_must_reach_is_a_threshold():
    for alert in ALERTS:
        assert not alert.least or isinstance(getattr(Thresholds(), alert.least), int)


def test_churn_has_the_causes_that_the_pages_explain():
    causes = {cause.name for cause in CAUSES}
    pages = (
        (RUNBOOKS / "KafkaClientConnectionChurn.md").read_text(),
        (REPOSITORY / "docs" / "metrics.md").read_text(),
    )
    for cause in causes:
        assert all(f"`{cause}`" in page for page in pages), cause


def test_what_repeats_the_alerts_is_what_their_description_makes():
    different = [str(path) for path, text in alert_pages.pages() if path.read_text() != text]
    assert different == []


def test_alerts_and_runbooks_agree_one_to_one():
    assert [page.stem for page in PAGES] == sorted(ALERTS_BY_NAME)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_runbook_has_its_parts(page):
    text, alert = page.read_text(), ALERTS_BY_NAME[page.stem]
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == SECTIONS
    assert len(queries_of(page)) == 1
    assert "brokerwire explain" in text or alert.name == "KafkaClientManyInstances"


@pytest.mark.parametrize("page", [*PAGES, RULES / "README.md"], ids=lambda page: page.stem)
def test_links_and_commands_of_a_page_are_good(page):
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#]+)", text):
        assert (page.parent / target).exists(), target
    blocks = "".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
    commands = re.findall(r"^brokerwire ([^#|\n]+)", blocks, re.MULTILINE)
    commands += re.findall(r"`brokerwire (check[^`]*)`", text)
    for command in commands:
        parser().parse_args(shlex.split(command.replace("=N", "=9")))


@pytest.mark.parametrize("page", [*PAGES, RULES / "README.md"], ids=lambda page: page.stem)
def test_each_metric_that_a_page_names_is_in_the_catalogue(page):
    for name in re.findall(r"(?:\w+:)?(?:kafka_client|brokerwire)_\w+(?::\w+)?", page.read_text()):
        assert name in SPECS or any(record.endswith(name) for record in RECORDED), name


def test_the_readme_shows_an_example_that_is_good():
    text = (RULES / "README.md").read_text()
    example = re.search(r"```yaml\n(# shop\.yaml\n.*?)```", text, re.DOTALL)
    assert rule_settings_from_text(example[1], "shop.yaml").thresholds.max_connections == 3000


def test_the_page_of_times_has_each_alert_as_it_is():
    """What a run measured stays until the next one; an alert without a row was never provoked."""
    rows = re.findall(
        r"^\| \[(\w+)\]\(\.\./runbooks/\1\.md\) \| [^|]+ \|((?: (?:\d+ s|-) \|){4}) (\w+) \|$",
        (REPOSITORY / "docs" / "internals" / "alert-times.md").read_text(),
        re.MULTILINE,
    )
    told = {name: duration for name, _times, duration in rows}
    assert told == {alert.name: written_duration(alert.fire_after.seconds) for alert in ALERTS}
    by_prometheus_alone = {name for name, times, _duration in rows if "-" in times}
    assert by_prometheus_alone == {"BrokerwireAgentDown"}
