"""The simulation that the join is held against is itself held against the measured laws."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import pytest

from exporter.model import Library
from tests.property.join_simulation.__main__ import main
from tests.property.join_simulation.accidents import plan_accidents
from tests.property.join_simulation.host import Host
from tests.property.join_simulation.laws import LawBrokenError, check_laws
from tests.property.join_simulation.observer import READ_SECONDS, Observer
from tests.property.join_simulation.population import populate
from tests.property.join_simulation.runs import simulate
from tests.property.join_simulation.security import PROFILES
from tests.property.join_simulation.traits import TRAITS

PUNCTUAL = dict.fromkeys(TRAITS, False) | {
    "reconnects": True, "own certificates": True, "several processes": True, "groups": True,
}  # fmt: skip


class Silent:
    """A join that states nothing."""

    attributions: ClassVar[dict[int, object]] = {}

    def update(self, *_given):
        return []

    def forget(self, cookies):
        pass


def world(profile, seed, traits=None):
    host = Host(profile, seed, traits)
    populate(host)
    plan_accidents(host)
    return host, Observer(host)


@pytest.mark.parametrize("profile", PROFILES)
def test_what_an_observer_sees_keeps_the_law(profile):
    """Kernel = not counted + counted + cost x records, in what the join is given at quiet reads."""
    held = 0
    for seed in range(8):
        _host, observer = world(profile, seed, PUNCTUAL)
        for number in range(15):
            for read in observer.turn(observer.begins_at + READ_SECONDS * number)[0]:
                held += hold(observer, read)
    assert held > 500


def hold(observer, read):
    """Hold the rows of a page that was read while a socket was quiet against the socket."""
    before = {each.cookie: each for each in read.sample.before.sockets}
    rows = {
        (client.client_id, client.kind, client.instance, row.node_id): row
        for client in read.sample.reading.clients
        for row in client.nodes
    }
    held = 0
    for after in read.sample.after.sockets:
        wire = observer.wires.get(after.cookie)
        if wire is None or before.get(after.cookie) is not after or wire.ready_at > after.at:
            continue
        if observer.process_of(wire) is not read.process:
            continue
        client, node = wire.node.client, wire.node
        row = rows.get((client.client_id, client.kind, client.instance, node.node_id))
        if row is None or node.wire is not wire or node.connects > 1:
            continue
        cost = client.security.cost
        # No row is of a moment at which bytes are written and not yet counted: nothing went.
        kept_out = after.outgoing_bytes - wire.uncounted_out.at(after.at) - row.outgoing_bytes
        kept_in = after.incoming_bytes - wire.uncounted_in.at(after.at) - row.incoming_bytes
        per_request = 2 if client.version == "2.1.0" and client.library is Library.JAVA else 1
        assert kept_out >= cost.out * per_request * row.requests
        assert kept_in >= cost.incoming * row.responses
        assert kept_out % cost.out == 0 if cost.out else kept_out == 0
        assert kept_in % cost.incoming == 0 if cost.incoming else kept_in == 0
        held += 1
    return held


@pytest.mark.parametrize("total", ["written", "taken", "uncounted_out", "uncounted_in"])
def test_a_world_that_loses_a_byte_is_found_out(total):
    host, _observer = world("tls13", 3, PUNCTUAL)
    host.advance(130.0)
    assert check_laws(host, 130.0) > 0
    wire = next(each for each in host.sockets.wires if each.closed_at > 130.0)
    getattr(wire, total).add(120.0, 1)
    with pytest.raises(LawBrokenError):
        check_laws(host, 130.0)


def test_a_run_follows_from_its_seed():
    assert simulate("mixed", 7, turns=8) == simulate("mixed", 7, turns=8)
    assert simulate("mixed", 7, turns=8) != simulate("mixed", 8, turns=8)


def test_the_traits_are_found_in_about_as_many_runs_as_is_said():
    drawn = Counter(
        name for seed in range(400) for name, on in Host("tls13", seed).traits.items() if on
    )
    assert {
        name: share for name, share in TRAITS.items() if abs(drawn[name] / 400 - share) > 0.08
    } == {}


def test_pages_are_torn_lag_and_come_late():
    """Every one of the faults is seen, each in the share of reads that it is said to have."""
    faults = {"lags": True, "torn pages": True, "late statistics": True, "librdkafka": True}
    abouts, torn, reads = [], 0, 0
    for seed in range(30):
        host, observer = world(
            "tls13", seed, PUNCTUAL | faults | {"several processes": seed % 2 == 1}
        )
        for number in range(10):
            found, _gone = observer.turn(observer.begins_at + READ_SECONDS * number)
            abouts += [read.about.split(" ")[0] for read in found if read.about]
            reads += len(found)
        torn += sum(len(client.stalls) for client in host.plans)
    assert {"the", "complete"} == set(abouts)
    assert torn > 50
    assert 0.005 < abouts.count("the") / reads < 0.2
    assert abouts.count("complete") / reads > 0.5


def test_a_silent_join_is_never_wrong_and_never_right():
    result = simulate("plaintext", 1, join=Silent, turns=12)
    assert result.wrongs == []
    assert {verdict for rate in result.rates.values() for verdict in rate} <= {"unknown"}


def test_the_command_line_prints_rates_and_stories(capsys):
    main(["--profile", "tls13", "--runs", "2", "--seed", "5"])
    assert "tls13: 2 runs" in capsys.readouterr().out
    main(["--profile", "plaintext", "--story", "5", "--only", "groups"])
    assert "plaintext seed 5: groups" in capsys.readouterr().out


def test_unknown_profiles_and_traits_are_refused():
    with pytest.raises(ValueError, match="must be one of"):
        Host("quantum", 1)
    with pytest.raises(ValueError, match="no such trait"):
        Host("tls13", 1, {"haste": True})
