"""What counts as right, equal, unknown and wrong when an answer is held against the truth."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.scenarios.join_verdicts import Verdict, Verdicts, judge, share

TRUTH = SimpleNamespace(
    local="127.0.0.1:40000", remote="127.77.1.1:19002", role="bootstrap", client_id="orders",
    client_kind="producer", broker_id=1, node_id="-1",
)  # fmt: skip
RIGHT = {"client_id": "orders", "client_kind": "producer", "role": "bootstrap", "node_id": "-1"}
NATIVE = {"role": "data", "node_id": "127.77.1.1:19002/1"}


def said(**values):
    nothing = {
        "local": TRUTH.local, "remote": TRUTH.remote, "client_id": None, "client_kind": "unknown",
        "role": "unknown", "node_id": None, "broker_id": None, "equals": (),
        "confidence": "exact", "tcp_state": "established", "connection_class": "",
        "idle_seconds": 0.0, "evidence": (),
    }  # fmt: skip
    return SimpleNamespace(**(nothing | values))


def truth(**values):
    return SimpleNamespace(**(vars(TRUTH) | values))


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        pytest.param({}, Verdict.UNKNOWN, id="nothing"),
        pytest.param(RIGHT, Verdict.RIGHT, id="client-and-node"),
        pytest.param(RIGHT | {"node_id": "-2"}, Verdict.WRONG, id="another-node-of-its-role"),
        pytest.param(RIGHT | {"client_id": "stock"}, Verdict.WRONG, id="another-client"),
        pytest.param(RIGHT | {"node_id": None}, Verdict.ROLE, id="client-and-role"),
        pytest.param({"role": "bootstrap"}, Verdict.ROLE, id="role-alone"),
        pytest.param({"role": "data"}, Verdict.WRONG, id="another-role-alone"),
        pytest.param({"client_id": "#3"}, Verdict.UNKNOWN, id="a-client-by-number"),
        pytest.param(
            {"client_id": "#3", "role": "bootstrap"}, Verdict.ROLE, id="a-client-by-number-and-role"
        ),
        pytest.param(
            RIGHT | {"node_id": "-2", "equals": ("producer 'orders' node -1",)},
            Verdict.EQUAL,
            id="among-equals-of-its-client",
        ),
        pytest.param(
            RIGHT | {"client_id": "stock", "equals": ("producer 'orders' node -1",)},
            Verdict.MISNAMED,
            id="among-equals-with-another-client-shown",
        ),
        pytest.param(
            RIGHT | {"role": "data", "equals": ("producer 'orders' node -1",)},
            Verdict.MISNAMED,
            id="among-equals-with-another-role-shown",
        ),
        pytest.param(
            RIGHT | {"node_id": "-2", "equals": ("producer 'orders' node -3",)},
            Verdict.WRONG,
            id="not-among-equals",
        ),
    ],
)
def test_an_answer_is_held_against_the_truth(answer, verdict):
    assert judge(said(**answer), TRUTH) is verdict


@pytest.mark.parametrize(
    ("broker_id", "verdict"), [(1, Verdict.RIGHT), (None, Verdict.RIGHT), (2, Verdict.WRONG)]
)
def test_a_node_of_librdkafka_is_known_by_its_broker(broker_id, verdict):
    answer = said(**(RIGHT | {"role": "data", "node_id": "1", "broker_id": broker_id}))
    assert judge(answer, truth(**NATIVE)) is verdict


def test_an_age_counts_from_when_the_client_is_known_and_the_connection_told():
    verdicts = Verdicts((15,))
    verdicts.look(100.0, [TRUTH], [said()], {"orders": 90.0})
    verdicts.look(114.0, [TRUTH], [said()], {"orders": 90.0})
    assert not verdicts.counts(15)
    verdicts.look(115.0, [TRUTH], [said(**RIGHT)], {"orders": 90.0})
    verdicts.look(130.0, [TRUTH], [said()], {"orders": 90.0})
    assert verdicts.counts(15) == {"right": 1}


def test_a_wrong_answer_that_was_taken_back_stays_a_failure():
    verdicts = Verdicts((15,))
    verdicts.look(100.0, [TRUTH], [said(**(RIGHT | {"node_id": "-2"}))], {"orders": 90.0})
    verdicts.look(116.0, [TRUTH], [said(**RIGHT)], {"orders": 90.0})
    (failure,) = verdicts.failures()
    assert "wrong at 1 looks, confident at 1" in failure
    assert verdicts.counts(15) == {"right": 1}


@pytest.mark.parametrize(
    ("equals", "exact"), [((), 1), (("producer 'orders' node -2",), 0)], ids=["alone", "one-of-two"]
)
def test_an_answer_is_exact_when_it_names_one_node(equals, exact):
    verdicts = Verdicts((15,))
    verdicts.look(116.0, [TRUTH], [said(**RIGHT, equals=equals)], {"orders": 90.0})
    verdicts.look(132.0, [TRUTH], [said(**RIGHT, equals=equals)], {"orders": 90.0})
    assert (verdicts.counts(15), verdicts.exact(15)) == ({"right": 1}, exact)


def test_the_share_counts_equals_as_right_and_roles_not():
    assert share({"right": 2, "equal": 1, "role": 1}) == 0.75
    assert share({}) is None
