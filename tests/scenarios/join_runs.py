"""Live runs of the join over profiles, clients and traits drawn by seed; a table, and recordings.

    python -m tests.scenarios.join_runs --runs 16 --out runs

Every connection is held against what its client says of it, 15 and 60 seconds after the agent
knows the client. What the join was fed is saved of each run that was not right throughout, to be
replayed by `join_replays`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from tests.lab.artifacts import fetch_artifacts
from tests.lab.burners import burning
from tests.lab.cluster import KafkaCluster
from tests.lab.java_client import JavaClient, JavaMetrics
from tests.lab.rdkafka_client import RdkafkaClient, Statistics
from tests.scenarios.join_clients import create_topics, populate_hard, populate_wide
from tests.scenarios.join_draws import CERTIFICATES, GENERATIONS, LIBRDKAFKA, PROFILES, Run, drawn
from tests.scenarios.join_recording import Recording, RecordingAttributor
from tests.scenarios.join_verdicts import AGES, Verdicts, is_known_limit, share
from tests.scenarios.scoring import agent_for, settings_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.lab.artifacts import Artifacts
    from tests.lab.clients import ClientProcess

_TLS12 = {"ssl.protocol": "TLSv1.2", "ssl.enabled.protocols": "TLSv1.2"}

LOOK_SECONDS = 2.0


def perform(
    run: Run, artifacts: Artifacts, cluster: KafkaCluster, seconds: float
) -> tuple[Verdicts, Recording]:
    """Run the agent beside the clients of one run and judge what it says."""
    profile, random = PROFILES[run.profile], Random(f"{run.seed} clients")
    with ExitStack() as stack:
        if run.burners:
            stack.enter_context(burning(run.burners))
        statistics = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "statistics.sock"
        processes: dict[str, ClientProcess] = {
            each: stack.enter_context(
                RdkafkaClient(artifacts, cluster, statistics=Statistics(socket=statistics))
                if each == LIBRDKAFKA
                else JavaClient(artifacts, cluster, each, metrics=JavaMetrics(jmx_exporter="plain"))
            )
            for each in run.generations
        }
        urls = {n: each.jmx_url for n, each in processes.items() if isinstance(each, JavaClient)}
        settings = settings_for(
            cluster, java=urls, statistics_socket=str(statistics), listeners=(profile.listener,)
        )

        def populate() -> None:
            for name, process in processes.items():
                tls12 = profile.listener == "SSL_12" and name != LIBRDKAFKA
                common: dict[str, Any] = {
                    "listener": profile.listener,
                    "mechanism": profile.mechanism,
                    "properties": _TLS12 if tls12 else {},
                }
                unique = f"{name}-{run.number}"
                populate_hard(process, unique, run.traits[name], random, **common)
                if run.wide:
                    populate_wide(process, unique, **common)

        if run.late:
            populate()
            time.sleep(run.late)
        attributor = RecordingAttributor(Recording(about=str(run)))
        agent = stack.enter_context(agent_for(settings, attributor))
        if not run.late:
            populate()
        verdicts = Verdicts(AGES)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
            _look(verdicts, agent, processes.values(), attributor)
    return verdicts, attributor.recording


def _look(
    verdicts: Verdicts,
    agent: Any,
    processes: Iterable[ClientProcess],
    attributor: RecordingAttributor,
) -> None:
    """Judge what was open both before and after the snapshot."""
    truths = [truth for process in processes for truth in process.truth()]
    attributor.note_truth(truths)
    snapshot, now = agent.snapshot(), time.monotonic()
    still = {(truth.local, truth.remote) for process in processes for truth in process.truth()}
    told = [
        truth
        for truth in truths
        if (truth.local, truth.remote) in still and not is_known_limit(truth)
    ]
    verdicts.look(now, told, snapshot.connections, attributor.known_since)


def row_of(run: Run, generation: str, verdicts: Verdicts) -> dict[str, Any]:
    """Return the counts of one process of one run."""

    def of(told: Any) -> bool:
        return told.truth.client_id.endswith(f"-{generation}-{run.number}")

    all_told = [told for told in verdicts.told.values() if of(told)]
    return {
        "run": run.number,
        "profile": run.profile,
        "generation": generation,
        "agent": "late" if run.late else "early",
        "certificates": run.certificates,
        "burners": run.burners,
        "wide": run.wide,
        "traits": str(run.traits[generation]),
        "connections": len(all_told),
        **{f"at_{age}": dict(verdicts.counts(age, of)) for age in AGES},
        **{f"exact_at_{age}": verdicts.exact(age, of) for age in AGES},
        "ever_wrong": sum(told.wrong_looks > 0 for told in all_told),
        "ever_confident_and_wrong": sum(told.confident_looks > 0 for told in all_told),
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the counts by profile, by library generation, by the agent's start, and of all."""
    heads = [
        f"{age}s {what}"
        for age in AGES
        for what in ("right", "exact", "misnamed", "unknown", "wrong", "of")
    ]
    lines = [f"{'':28}{'runs':>5}" + "".join(f"{h:>12}" for h in heads) + "  ever wrong  confident"]
    for key in ("profile", "generation", "agent", "certificates", "burners"):
        for value in dict.fromkeys(str(row[key]) for row in rows):
            chosen = [row for row in rows if str(row[key]) == value]
            name = value if key != "burners" else f"{value} burners"
            lines.append(_line(name, chosen))
        lines.append("")
    return "\n".join([*lines, _line("all", rows)])


def _line(name: str, rows: Sequence[dict[str, Any]]) -> str:
    text = f"{name:28}{len({row['run'] for row in rows}):5}"
    for age in AGES:
        counts: Counter[str] = sum((Counter(row[f"at_{age}"]) for row in rows), Counter())
        part = share(counts)
        exact = sum(row[f"exact_at_{age}"] for row in rows)
        text += f"{'-' if part is None else f'{part:.1%}':>12}{exact:12}{counts['misnamed']:12}"
        text += f"{counts['unknown'] + counts['role']:12}{counts['wrong']:12}{counts.total():12}"
    wrong = sum(row["ever_wrong"] for row in rows)
    confident = sum(row["ever_confident_and_wrong"] for row in rows)
    return text + f"{wrong:12}{confident:11}"


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.scenarios.join_runs", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--runs", type=int, default=2 * len(PROFILES))
    parser.add_argument("--first", type=int, default=0, help="number of the first run")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--seconds", type=float, default=75, help="of each run, from the agent on")
    parser.add_argument("--budget", type=float, default=7200, help="start no run after so long")
    parser.add_argument("--profile", action="append", choices=list(PROFILES))
    parser.add_argument("--generation", action="append", choices=GENERATIONS)
    parser.add_argument("--processes", type=int, default=0, help="so many by seed; 0: one of each")
    parser.add_argument("--no-burners", dest="burners", action="store_false")
    parser.add_argument("--keep-all", action="store_true", help="save right runs, too")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    options = parser.parse_args(arguments)
    options.profile = options.profile or list(PROFILES)
    options.generation = options.generation or list(GENERATIONS)
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Perform the runs; 1 if one of them was wrong."""
    options = options_of(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    artifacts = fetch_artifacts()
    rows: list[dict[str, Any]] = []
    begun = time.monotonic()
    runs = drawn(options)
    listeners = tuple(dict.fromkeys(PROFILES[run.profile].listener for run in runs))
    with ExitStack() as stack:
        brokers: tuple[str, KafkaCluster] | None = None
        for run in runs:
            if time.monotonic() - begun > options.budget:
                break
            if brokers is None or brokers[0] != run.certificates:
                stack.pop_all().close()
                shapes = CERTIFICATES[run.certificates]
                cluster = stack.enter_context(
                    KafkaCluster(artifacts, brokers=3, listeners=listeners, certificates=shapes)
                )
                create_topics(cluster, wide=any(each.wide for each in runs))
                brokers = (run.certificates, cluster)
            verdicts, recording = perform(run, artifacts, brokers[1], options.seconds)
            mine = [row_of(run, generation, verdicts) for generation in run.generations]
            rows += mine
            failures = verdicts.failures()
            print(f"{run}\n{_line(run.name, mine)}", *failures, sep="\n  ", file=sys.stderr)
            if failures or options.keep_all:
                recording.save(options.out / f"{run.name}.json.gz")
                text = "\n".join([str(run), *failures])
                (options.out / f"{run.name}.txt").write_text(text + "\n")
            (options.out / "runs.json").write_text(json.dumps(rows, indent=1) + "\n")
            (options.out / "runs.txt").write_text(table(rows) + "\n")
    print(table(rows))
    return int(any(row["ever_wrong"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
