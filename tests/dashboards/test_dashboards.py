"""The dashboards are what the code makes, ask only for what exists, and explain themselves."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from exporter.alerts.catalogue import ALERTS, ALERTS_BY_NAME
from exporter.alerts.links import OF_LABELS, dashboard_url
from exporter.alerts.settings import LinkSettings
from exporter.metrics.catalogue import SPECS, Kind
from exporter.model import ClosedBy, ConnectionClass
from spark_rollups.report.openmetrics import METRICS
from tests.dashboards.boards import (
    BOARDS,
    BUILT_IN,
    FILES,
    FOLDER,
    REPOSITORY,
    UIDS,
    all_chosen,
    filled,
    labels_shown,
    urls_in,
    variables_in,
)
from tests.dashboards.promql import grouping_labels_of, labels_made_by, selectors_of
from tools.dashboards.__main__ import main, texts
from tools.dashboards.palette import CLASS_COLOURS
from tools.dashboards.queries import TARGET_LABELS, series

# ConfigMaps hold 1 MiB, and the whole object a little more.
LARGEST_BYTES = 512 * 1024
OF_PROMETHEUS = {"up": set()}
OF_FLEET = {metric.name: set(metric.labels) for metric in METRICS}
CLOSED_SETS = {
    "class": set(ConnectionClass),
    "closed_by": set(ClosedBy),
    "finding": set(ALERTS_BY_NAME),
}
QUESTIONS = ("Is this number normal?", "Will I hit a limit?")

each_board = pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
each_query = pytest.mark.parametrize(
    ("board", "asked"),
    [pytest.param(board, asked, id=asked.name) for board in BOARDS for asked in board.queries],
)


def labels_of(name: str) -> set[str]:
    """The labels of a series, by the catalogue; a histogram's buckets have `le`."""
    if name in OF_PROMETHEUS:
        return OF_PROMETHEUS[name]
    if name in SPECS:
        return set(SPECS[name].labels)
    if name in OF_FLEET:
        return OF_FLEET[name]
    spec = SPECS[re.sub(r"_(bucket|sum|count)$", "", name)]
    assert spec.kind is Kind.HISTOGRAM, name
    return {*spec.labels, "le"}


def test_the_files_are_what_the_code_makes():
    assert main(["--check"]) == 0
    assert {path for path, _ in texts() if path.parent == FOLDER} == set(FILES)


@each_board
def test_the_library_of_grafana_reads_it_back_unchanged(board):
    read = Dashboard.from_json(json.loads(board.text))
    again = json.dumps(read, cls=JSONEncoder, indent=2, sort_keys=True)
    assert again + "\n" == board.text


@each_board
def test_it_fits_into_a_config_map(board):
    assert len(board.text.encode()) < LARGEST_BYTES


@each_query
def test_a_query_asks_only_for_what_the_catalogue_has(board, asked):
    expression = filled(asked.expression, all_chosen(board))
    found = selectors_of(expression)
    assert found
    known = {*TARGET_LABELS, *labels_made_by(expression)}
    for name, matchers in found:
        own = labels_of(name)
        known |= own
        for label, value in matchers:
            assert label in own | {*TARGET_LABELS}, f"{name} has no label {label}"
            if label in CLOSED_SETS:
                assert set(value.split("|")) <= CLOSED_SETS[label], value
    assert grouping_labels_of(expression) <= known


@each_query
def test_a_query_uses_variables_that_the_dashboard_has(board, asked):
    assert variables_in(asked.expression) <= board.variables.keys() | BUILT_IN


@each_query
def test_a_selector_is_narrowed_down_by_what_is_chosen(board, asked):
    """A query that ignores what is chosen above would answer for everybody."""
    for name, matchers in selectors_of(filled(asked.expression, all_chosen(board))):
        if name in OF_FLEET:
            chosen = labels_of(name) & board.lists.keys()
            assert {(label, ".*") for label in chosen} <= {*matchers}, name
        else:
            assert ("cluster", ".*") in matchers, name


@each_query
def test_a_rate_leaves_out_what_is_summed_as_other(board, asked):
    """decisions/0006: `other` jumps by a client's whole past when that client is gone."""
    for name, matchers in selectors_of(filled(asked.expression, all_chosen(board))):
        if name.startswith("kafka_client_") and "client_kind" in labels_of(name):
            is_counter = name.endswith(("_total", "_bucket", "_sum", "_count"))
            assert not is_counter or ("client_kind", "other") in matchers, name


@each_board
def test_each_panel_explains_itself(board):
    for panel in board.panels:
        assert len(panel["description"]) > 40, panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"].get("unit") or panel["type"] == "heatmap"
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["targets"], panel["title"]
        for target in panel["targets"]:
            assert target["datasource"] == panel["datasource"]
    titles = [panel["title"] for panel in board.panels]
    assert len(set(titles)) == len(titles)


@each_board
def test_panels_have_ids_of_their_own_and_do_not_overlap(board):
    ids = [panel["id"] for panel in board.everything]
    assert ids == list(range(1, len(ids) + 1))
    taken = set()
    for panel in board.everything:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


@each_board
def test_the_first_row_answers_what_people_ask_first(board):
    heads = [n for n, panel in enumerate(board.everything) if panel["type"] == "row"]
    first = [panel["title"] for panel in board.everything[heads[0] + 1 : heads[1]]]
    assert len(first) == 4
    if board.uid != "brokerwire-agent":
        assert {*QUESTIONS} <= {*first}
        assert any(title.startswith("Who owns") for title in first)
    assert all(title.endswith("?") for title in first)


@each_board
def test_a_row_is_full_and_no_wall(board):
    heads = [n for n, panel in enumerate(board.everything) if panel["type"] == "row"]
    for begin, end in pairwise([*heads, len(board.everything)]):
        row = board.everything[begin + 1 : end]
        assert 1 <= len(row) <= 4
        assert sum(panel["gridPos"]["w"] for panel in row) % 24 == 0


@each_board
def test_each_variable_asks_for_a_label_that_the_metric_has(board):
    assert next(iter(board.variables)) == "datasource"
    for name, query in board.lists.items():
        selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", query).groups()
        assert label == name
        (metric, matchers) = selectors_of(filled(selector, all_chosen(board)))[0]
        assert label in labels_of(metric) | {*TARGET_LABELS}
        assert {matcher for matcher, _ in matchers} <= labels_of(metric) | {*TARGET_LABELS}
        # Nothing is chosen at first, and that matches also what has no such label.
        assert board.variables[name]["current"]["value"] == "$__all"
        assert board.variables[name]["allValue"] == ".*"


@each_board
def test_links_lead_to_dashboards_and_variables_that_exist(board):
    urls = urls_in(board.document)
    assert {url for url in urls if re.fullmatch(r"/d/[\w-]+", url)} == {
        f"/d/{uid}" for uid in UIDS if uid != board.uid
    }
    for url in urls:
        if url.startswith("${runbooks:raw}"):
            continue
        uid, _, query = re.fullmatch(r"/d/([\w-]+)(\??)(.*)", url).groups()
        chosen = set(re.findall(r"var-(\w+)=", query))
        kept = set(re.findall(r"\$\{(\w+):queryparam\}", query))
        assert chosen | kept <= UIDS[uid].variables.keys(), url
        assert kept <= board.variables.keys(), url
        assert not kept & chosen, f"{url} gives a variable two values"


@each_board
def test_a_link_of_a_row_or_series_names_a_label_that_is_there(board):
    for panel in board.panels:
        for url in urls_in(panel):
            named = re.findall(r"\$\{__(?:data\.fields|field\.labels)\.(\w+)", url)
            assert set(named) <= labels_shown(panel), (panel["title"], url)


def test_findings_lead_to_runbooks_that_exist():
    runbooks = {board.uid: board.variables["runbooks"]["query"] for board in BOARDS}
    for place in runbooks.values():
        for alert in ALERTS:
            assert (REPOSITORY / f"{place}{alert.name}.md").exists()
    links = [url for board in BOARDS for url in urls_in(board.document) if "runbooks" in url]
    assert links == ["${runbooks:raw}${__data.fields.finding}.md"]


# Labels of alerts that narrow nothing down which the others leave wide.
WITHOUT_VARIABLE = {"client_kind", "broker_id", "cause", "source", "kind"}
# There the broker is what it is about, and all its clients are shown.
OF_ITS_CLIENTS = {"brokerwire-brokers": {"client_id", "process"}}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_each_alert_leads_to_a_dashboard_that_can_show_what_it_is_about(alert):
    """Its labels are in the address as variables: each must be one, but for those above."""
    variables = UIDS[alert.dashboard].variables.keys()
    others = WITHOUT_VARIABLE | OF_ITS_CLIENTS.get(alert.dashboard, set())
    assert {*alert.labels} - others <= variables
    assert {"cluster", "namespace", "job"} <= variables
    address = dashboard_url(alert, LinkSettings(), OF_LABELS)
    assert address == f"/d/{alert.dashboard}?{OF_LABELS}"


def test_each_class_has_the_colour_of_the_page_wherever_it_is_shown():
    assert set(CLASS_COLOURS) == set(ConnectionClass)
    shown = 0
    for board in BOARDS:
        for panel in board.panels:
            if "class" not in labels_shown(panel):
                continue
            colours = {
                override["matcher"]["options"]: prop["value"]["fixedColor"]
                for override in panel["fieldConfig"]["overrides"]
                for prop in override["properties"]
                if prop["id"] == "color"
            }
            assert colours.items() >= CLASS_COLOURS.items(), panel["title"]
            shown += 1
    assert shown >= 4


@pytest.mark.parametrize("wrong", ["kafka_client_conections", "kafka_client_connections_bucket"])
def test_a_metric_that_does_not_exist_is_refused(wrong):
    with pytest.raises(ValueError, match=wrong):
        series(wrong)


def test_a_label_that_a_metric_does_not_have_is_refused():
    with pytest.raises(ValueError, match="client_id"):
        series("kafka_client_probes_total", ("client_id",))
