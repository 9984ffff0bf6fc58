"""Simulated hosts: nothing that the join states is wrong, and on ordinary ones it states nearly all.

`python -m tests.property.join_simulation` runs thousands, and tells the story of a wrong answer.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.property.join_simulation.runs import Verdict, simulate
from tests.property.join_simulation.security import PROFILES
from tests.property.join_simulation.traits import ORDINARY, TRAITS

RUNS = 50

# 40 seconds of a host's life: what goes wrong does so mostly while little is known.
TURNS = 20


def only(*names: str) -> dict[str, bool]:
    return dict.fromkeys(TRAITS, False) | dict.fromkeys(names, True)


def wrongs(profile: str, seeds: range, traits: dict[str, bool] | None = None) -> list[str]:
    return [
        f"--profile {profile} --story {seed}: {wrong.story}"
        for seed in seeds
        for wrong in simulate(profile, seed, traits, turns=TURNS, stop_at_wrong=True).wrongs
    ]


@pytest.mark.parametrize("profile", PROFILES)
def test_the_join_is_never_wrong(profile):
    """All traits mixed by seed: with and without groups, early and late, whatever the pages do."""
    assert wrongs(profile, range(RUNS)) == []


@pytest.mark.parametrize(
    ("profile", "seed"),
    [
        ("sasl-ssl-plain", 7),
        ("tls13", 5_089),
        ("tls13", 30_026),
        ("tls13", 40_198),
        ("tls13", 40_249),
        ("sasl-ssl-scram", 30_088),
        ("mixed", 70_055),
        ("mixed", 302_015),
        ("mixed", 501_072),
    ],
)
def test_what_was_wrong_once_is_not_again(profile, seed):
    assert simulate(profile, seed, stop_at_wrong=True).wrongs == []


@pytest.mark.parametrize("profile", PROFILES)
def test_totals_that_lag_now_and_then(profile):
    """Clients are interrupted between a write and its count, or pages are of another moment."""
    assert wrongs(profile, range(10_000, 10_015), only("lags", "torn pages")) == []


def test_scram_under_tls_is_never_wrong():
    """Nonces vary the handshake, records hide what a producer sent, connections are lost."""
    traits = only("reconnects", "late agent", "lags", "shuffled lists")
    assert wrongs("sasl-ssl-scram", range(20_000, 20_060), traits) == []


@pytest.mark.parametrize(
    ("profile", "share"), [("plaintext", 0.95), ("tls13", 0.8), ("sasl-ssl-plain", 0.8)]
)
def test_nearly_all_connections_of_an_ordinary_host_are_told(profile, share):
    """A join that states nothing would never be wrong."""
    found: Counter[Verdict] = Counter()
    for seed in range(15):
        result = simulate(profile, seed, only(*ORDINARY))
        assert result.wrongs == []
        found += result.rates[60.0]
    assert found.total() > 80
    assert found[Verdict.RIGHT] + found[Verdict.EQUALS] >= share * found.total()
