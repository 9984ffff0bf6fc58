"""Which runs of the join are drawn, and how their counts are added up."""

from __future__ import annotations

from tests.scenarios.join_draws import CERTIFICATES, PROFILES, drawn
from tests.scenarios.join_runs import options_of, table

OUT = ["--out", "nowhere"]


def test_the_same_seed_draws_the_same_runs():
    assert drawn(options_of([*OUT, "--seed", "a"])) == drawn(options_of([*OUT, "--seed", "a"]))
    assert drawn(options_of([*OUT, "--seed", "a"])) != drawn(options_of([*OUT, "--seed", "b"]))


def test_a_later_run_is_drawn_alone_as_among_others():
    everything = drawn(options_of([*OUT, "--runs", "9"]))
    assert drawn(options_of([*OUT, "--runs", "1", "--first", "8"])) == everything[8:]


def test_two_turns_start_the_agent_both_ways_in_every_profile():
    runs = drawn(options_of(OUT))
    assert {(run.profile, run.late > 0) for run in runs} == {
        (profile, late) for profile in PROFILES for late in (False, True)
    }


def test_every_turn_has_other_certificates():
    runs = drawn(options_of([*OUT, "--runs", str(len(CERTIFICATES) * len(PROFILES))]))
    assert {run.certificates for run in runs} == set(CERTIFICATES)


def row(**values):
    common = {
        "run": 0, "profile": "tls13", "generation": "4.4.0", "agent": "early",
        "certificates": "one certificate", "burners": 0, "wide": False,
        "at_15": {"right": 4, "equal": 1, "misnamed": 1, "unknown": 3, "wrong": 1}, "at_60": {},
        "exact_at_15": 3, "exact_at_60": 0,
        "ever_wrong": 2, "ever_confident_and_wrong": 1,
    }  # fmt: skip
    return common | values


def test_the_table_adds_up_what_the_runs_counted():
    later = {"at_60": {"right": 4, "role": 1}, "exact_at_60": 4}
    lines = table([row(), row(run=1, **later)]).splitlines()
    assert lines[-1].split() == [
        "all", "2", "60.0%", "6", "2", "6", "2", "20", "80.0%", "4", "0", "1", "0", "5", "4", "2"
    ]  # fmt: skip
    assert any(line.split()[:3] == ["tls13", "2", "60.0%"] for line in lines)


def test_a_share_of_nothing_is_not_zero():
    assert "-" in table([row(at_15={}, at_60={})]).splitlines()[-1].split()
