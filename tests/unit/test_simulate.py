"""The simulated fleet: its journals are journals, its truth is what they say, and a seed is a fleet."""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet_simulator import command
from fleet_simulator.faults import parse_faults
from fleet_simulator.lines import batches_of
from fleet_simulator.lives import lives_of
from fleet_simulator.plan import BEHAVIOURS, Order, parse_mix, plan_fleet
from fleet_simulator.truth import Truth
from journal_schema import schema
from spark_rollups.cli import main
from spark_rollups.commands import simulate as simulate_command
from tests.unit.journal_reduction import hourly_of, records_of, truth_of

ROOT = Path(__file__).parents[2]
SCHEMA = schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
ALL_FAULTS = (
    "duplicates=0.05,disorder=0.1,garbage=0.01,newer=0.01,older=0.3,restarts=0.5,clock_steps=0.5"
)


def simulate(folder, *flags, agents=13, hours=2):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    given_flags = [f"--agents={agents}", f"--hours={hours}", f"--out={folder}", "--processes=1"]
    assert command.run(parser.parse_args([*given_flags, *flags])) == 0
    return folder


def lines_in(folder):
    for path in sorted((folder / "journal").rglob("*.jsonl*")):
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8") as file:
            yield from file


def lives(seed, behaviour, hours):
    order = Order(agents=1, hours=hours, seed=seed, mix={behaviour: 1})
    fleet = plan_fleet(order)
    yield from lives_of(fleet, fleet.services[0], 0, 0)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    each = ",".join(f"{behaviour}=1" for behaviour in BEHAVIOURS)
    return simulate(tmp_path_factory.mktemp("fleet") / "made", f"--mix={each}")


def test_every_line_is_a_record_of_the_journals_schema(fleet):
    seen = set()
    for line in lines_in(fleet):
        record = json.loads(line)
        shape = (record["kind"], record.get("class"), record.get("cause"), record.get("finding"))
        # One validation costs a millisecond: each shape first, then one line in twenty.
        if shape not in seen or hash(line) % 20 == 0:
            VALIDATOR.validate(record)
        seen.add(shape)
    assert {"agent", "connections", "finding"} == {kind for kind, *_ in seen}
    assert {"zombie", "excess", "half_closed", "stale", "ghost", "probe"} <= {
        name for _, name, *_ in seen
    }


def test_a_batch_tells_how_many_records_it_has(fleet):
    batches = {}
    for record in records_of(lines_in(fleet)):
        batch = batches.setdefault((record["agent_id"], record["boot_id"], record["seq"]), [])
        batch.append(record)
    for batch in batches.values():
        assert [record["index"] for record in batch] == list(range(batch[0]["records"]))
        assert [record["kind"] == "agent" for record in batch] == [True] + [False] * (
            len(batch) - 1
        )
    last = {}
    for agent, boot, seq in batches:
        assert seq == last.get((agent, boot), 0) + 1
        last[agent, boot] = seq


def test_truth_equals_a_reduction_of_the_lines(fleet):
    assert truth_of(fleet) == hourly_of(records_of(lines_in(fleet)))


def test_truth_equals_it_whatever_befalls_the_lines(tmp_path):
    made = simulate(tmp_path / "made", f"--faults={ALL_FAULTS}", "--seed=3", "--weeks=2")
    assert truth_of(made) == hourly_of(records_of(lines_in(made)))
    happened = json.loads((made / "truth" / "summary.json").read_text())["happened"]
    assert {"duplicates", "disorder", "newer", "cut", "no_json", "older"} <= happened.keys()


def test_lost_lines_only_ever_take_away(tmp_path):
    made = simulate(tmp_path / "made", "--faults=lost=0.2", "--seed=4")
    truth, told = truth_of(made), hourly_of(records_of(lines_in(made)))
    for name in ("connection_ms", "opened", "bytes_out"):
        sums = {}
        for which, rows in (("truth", truth), ("told", told)):
            for (_, *dims), row in rows.items():
                sums.setdefault(tuple(dims), {}).setdefault(which, []).append(row[name])
        assert all(sum(each.get("told", [])) <= sum(each["truth"]) for each in sums.values())


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(BEHAVIOURS), st.integers(1, 3))
def test_any_pod_is_counted_as_it_lived(seed, behaviour, hours):
    truth, lines = Truth(), []
    for pod in lives(seed, behaviour, hours):
        truth.add(pod)
        for boot in pod.boots:
            for batch in batches_of(pod, boot):
                lines += batch
    for line in lines[:: max(1, len(lines) // 10)]:
        VALIDATOR.validate(json.loads(line))
    assert truth.tables()["hourly"] == hourly_of(records_of(lines))


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(BEHAVIOURS))
def test_counters_only_grow(seed, behaviour):
    greatest = {}
    for pod in lives(seed, behaviour, 2):
        for boot in pod.boots:
            for batch in batches_of(pod, boot):
                for record in map(json.loads, batch):
                    series = (record["boot_id"], record.get("series"))
                    for name in ("connection_ms", "bytes_out", "opened", "active_ms", "covered_ms"):
                        if record.get(name) is not None:
                            assert record[name] >= greatest.get((series, name), 0)
                            greatest[series, name] = record[name]


def test_each_sin_has_its_mark():
    causes = {}
    for behaviour in BEHAVIOURS:
        phases = [phase for pod in lives(1, behaviour, 8) for phase in pod.phases]
        causes[behaviour] = {phase.cause for phase in phases} | {
            phase.connection_class for phase in phases
        }
    assert "idle_closing_off" in causes["idle_off"]
    assert "excess_instances" in causes["excess"]
    assert "not_closed_after_broker" in causes["stuck"]
    assert "broker_moved" in causes["stale"]
    assert "descriptor_leak" in causes["ghost"]
    assert "probe" in causes["probe"]
    assert causes["producer"] == {"", "superseded_bootstrap", "bootstrap", "data"}
    assert len(list(lives(1, "storm", 8))) >= 5


def test_the_mix_is_kept_even_in_a_small_fleet():
    fleet = plan_fleet(Order(agents=100, hours=1, mix=parse_mix("producer=50,excess=30,probe=20")))
    pods = {}
    for service in fleet.services:
        pods[service.behaviour] = pods.get(service.behaviour, 0) + service.pods
    assert sum(pods.values()) == 100
    for behaviour, share in (("producer", 50), ("excess", 30), ("probe", 20)):
        assert abs(pods[behaviour] - share) <= 10


def test_a_seed_is_a_fleet_on_any_number_of_processes(tmp_path):
    """Hashes of strings differ from process to process unless told otherwise."""
    digests = set()
    for number, (processes, salt) in enumerate(((1, "1"), (3, "2"))):
        out = tmp_path / str(number)
        code = "import argparse; from fleet_simulator import command as c\n"
        code += "if __name__ == '__main__':\n p = argparse.ArgumentParser(); c.add_arguments(p); c.run(p.parse_args())\n"
        script = tmp_path / f"made{number}.py"
        script.write_text(code)
        flags = [
            "--agents=9",
            "--hours=1",
            "--seed=8",
            f"--faults={ALL_FAULTS}",
            "--gz",
            "--shards=4",
        ]
        subprocess.run(
            [sys.executable, script, *flags, f"--processes={processes}", f"--out={out}"],
            check=True,
            capture_output=True,
            env=os.environ | {"PYTHONHASHSEED": salt, "PYTHONPATH": str(ROOT)},
        )
        digest = hashlib.sha256()
        for path in sorted(out.rglob("*.*")):
            digest.update(str(path.relative_to(out)).encode() + path.read_bytes())
        digests.add(digest.hexdigest())
    assert len(digests) == 1


def test_another_seed_is_another_fleet(tmp_path):
    first = simulate(tmp_path / "a", "--seed=1", agents=3, hours=1)
    second = simulate(tmp_path / "b", "--seed=2", agents=3, hours=1)
    assert list(lines_in(first)) != list(lines_in(second))


def test_it_never_writes_beside_what_is_there(tmp_path, capsys):
    (tmp_path / "old").write_text("")
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    arguments = parser.parse_args(["--agents=1", "--hours=1", f"--out={tmp_path}"])
    assert command.run(arguments) == 2
    assert "is not empty" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["lost=2", "lost=x", "gone=0.1", "lost"])
def test_a_wrong_fault_is_named(text):
    with pytest.raises(ValueError, match=r"lost|gone"):
        parse_faults(text)


@pytest.mark.parametrize("text", ["", "producer=x", "nobody=3", "producer=0"])
def test_a_wrong_mix_is_refused(text):
    with pytest.raises(ValueError, match=r"share|whole number|not one of"):
        parse_mix(text)


def test_the_simulator_runs_from_a_checkout_with_nothing_installed(tmp_path):
    out = tmp_path / "fleet"
    flags = ["--agents=2", "--hours=1", "--processes=1", f"--out={out}"]
    # -I and -S: neither site-packages nor the environment.
    code = f"import sys, runpy; sys.path.insert(0, {str(ROOT)!r}); runpy.run_module('fleet_simulator', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, *flags],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert list((out / "journal").rglob("*.jsonl"))


def test_without_the_simulator_its_command_says_where_it_is(monkeypatch, capsys):
    monkeypatch.setattr(simulate_command, "find_spec", lambda _: None)
    assert main(["simulate", "--agents", "3", "--out", "fleet"]) == 3
    assert "python -m fleet_simulator" in capsys.readouterr().err


def test_the_wheel_has_no_simulator():
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]
    assert "fleet_simulator" not in wheel["targets"]["wheel"]["packages"]


def test_the_simulation_needs_no_spark():
    code = "import sys; import fleet_simulator.command; print('pyspark' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT
    )
    assert done.stdout.strip() == "False"
