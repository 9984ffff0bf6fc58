"""Every query of every dashboard, with its variables filled in, against a real Prometheus.

It scrapes the demo and an agent that watches faults. What returns nothing even so stands in
`WITHOUT_SERIES`, with the reason.
"""

from __future__ import annotations

import re
from contextlib import suppress
from urllib.parse import quote

import pytest

from tests.dashboards.boards import BOARDS, all_chosen, filled, labels_shown
from tests.dashboards.stage import everything
from tests.lab.errors import LabError
from tests.lab.processes import wait_until

pytestmark = pytest.mark.timeout(300)

# Scraped each second: Grafana would take four scrapes, but a busy machine misses many.
INTERVAL = "1m"
# A peer counts as frozen after 15 seconds, a zombie of the demo after 12.
SETTLE_SECONDS = 120.0
# By name, each with its reason; none needs to stand here as long as a fault can be staged.
WITHOUT_SERIES: dict[str, str] = {}
# Labels that a panel shows and no series of the demo has: its findings are of processes that give
# no metrics, whose clients have no name of their own.
NOT_IN_THE_DEMO = {"What to change": {"client_id"}}

QUERIES = [(board, asked) for board in BOARDS for asked in board.queries]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    with everything(tmp_path_factory.mktemp("stage")) as made:
        # Which has none is told by the test that compares them.
        with suppress(LabError):
            wait_until(
                "every query to have an answer",
                lambda: unanswered(made) == WITHOUT_SERIES.keys(),
                timeout=SETTLE_SECONDS,
                interval=3.0,
            )
        yield made


def answer(prometheus, board, asked):
    return prometheus.query(filled(asked.expression, all_chosen(board, INTERVAL)))


def unanswered(prometheus) -> set[str]:
    return {asked.name for board, asked in QUERIES if not answer(prometheus, board, asked)}


def test_every_query_returns_series_but_those_that_are_listed(prometheus):
    assert len(QUERIES) > 90
    assert unanswered(prometheus) == WITHOUT_SERIES.keys()


def test_a_label_that_is_shown_is_in_the_series(prometheus):
    for board in BOARDS:
        for panel in board.panels:
            seen = {
                label
                for of_board, asked in QUERIES
                if of_board is board and asked.panel["id"] == panel["id"]
                for series in answer(prometheus, board, asked)
                for label in series["metric"]
            }
            assert labels_shown(panel) - NOT_IN_THE_DEMO.get(panel["title"], set()) <= seen


def test_every_variable_has_something_to_choose(prometheus):
    for board in BOARDS:
        for name, query in board.lists.items():
            selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", query).groups()
            chosen = quote(filled(selector, all_chosen(board)), safe="")
            values = prometheus.ask(f"label/{label}/values?match[]={chosen}")
            assert values, f"{board.uid}: {name}"


def test_what_is_chosen_narrows_the_answer_down(prometheus):
    """The value of each variable, as Grafana writes several: a client of the demo, and a broker."""
    board = next(board for board in BOARDS if board.uid == "brokerwire-clients")
    asked = next(
        each for each in board.queries if each.panel["title"].startswith("Connections by client")
    )
    values = all_chosen(board, INTERVAL)
    everybody = answer(prometheus, board, asked)
    one = values | {"client_id": "(orders|billing)", "namespace": "shop"}
    found = prometheus.query(filled(asked.expression, one))
    assert {each["metric"]["client_id"] for each in found} == {"orders", "billing"}
    assert 0 < len(found) < len(everybody)
    # A client without a name of its own can be chosen as well: by an empty value.
    nameless = prometheus.query(filled(asked.expression, values | {"client_id": ""}))
    assert nameless
    assert not any("client_id" in each["metric"] for each in nameless)


def test_figures_of_the_demo_are_what_its_table_says(prometheus):
    """The first panel of the first dashboard, against what the demo is made of."""
    board = next(board for board in BOARDS if board.uid == "brokerwire-clients")
    first = [each for each in board.queries if each.panel["title"] == "Is this number normal?"]
    values = all_chosen(board, INTERVAL) | {"process": "legacy-consumer"}

    def figures() -> list[float]:
        answers = [prometheus.query(filled(each.expression, values)) for each in first]
        return [float(each[0]["value"][1]) for each in answers]

    wait_until("the zombies to be known", lambda: figures()[2] == 3, timeout=30)
    opened, expected, wasted, unused, efficiency = figures()
    assert (opened, expected, wasted, unused) == (6, 3, 3, 3)
    assert 40 < efficiency < 60
