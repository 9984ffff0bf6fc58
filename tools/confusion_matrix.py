"""Hold the roles that brokerwire answers against what clients say, and write docs/confusion.md.

    python -m tools.confusion_matrix             (some five minutes; needs the Kafka lab)
    python -m tools.confusion_matrix --seconds 90 --profile PLAINTEXT

Every kind of client of three Java generations and of librdkafka runs against a real cluster, once
for each profile (a listener). Two agents watch at once: one reads the clients' metrics, one has
nothing but the kernel.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab.artifacts import fetch_artifacts
from tests.lab.cluster import KafkaCluster
from tests.lab.versions import CLIENT_GENERATIONS
from tests.scenarios.scoring import score
from tests.scenarios.stage import Stage

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Mapping, Sequence

    from tests.lab.clients import ClientProcess

    Confusion = Counter[tuple[str, str]]

__all__ = ["Counts", "main", "measure", "populate"]

Counts = dict[str, "Confusion"]

PROFILES = ("PLAINTEXT", "SSL")
PAGE = Path(__file__).resolve().parents[1] / "docs" / "confusion.md"
ROLES = ("bootstrap", "coordinator", "transaction", "data", "admin")
ANSWERS = (*ROLES, "probe", "unknown")
TOPIC = "confusion"
PARTITIONS = 6

# Eight heartbeats each 5 s tell a coordinator of the new group protocol.
SECONDS = 60.0

HEAD = """\
# How often the roles are right

Real clients (Java {generations}, librdkafka) of every kind on three brokers; for each connection
the role that its client says it has (rows) against the role that brokerwire answers (columns).
Every figure is a number of connections.
`unknown` is an answer; a wrong role is a bug, and the scenario tests fail on the first one.
An AdminClient of librdkafka calls itself a producer until it has asked for what no producer asks:
so long its connections pass for `data`.

Written by `python -m tools.confusion_matrix`; a few connections more or less are chance.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure every profile and write the page; 1 where a role was wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--profile", action="append", choices=PROFILES)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    options = parser.parse_args(arguments)
    pages = [HEAD.format(generations=", ".join(CLIENT_GENERATIONS))]
    wrong = 0
    for profile in options.profile or PROFILES:
        counts = measure(profile, options.seconds)
        for source, confusion in counts.items():
            wrong += sum(n for (truth, answer), n in confusion.items() if is_wrong(truth, answer))
            pages.append(f"## {profile}, {source}\n\n{_table(confusion)}")
    PAGE.write_text("\n".join(pages), encoding="utf-8")
    print(f"wrote {PAGE}; {wrong} wrong")
    return 1 if wrong else 0


def is_wrong(truth: str, answer: str) -> bool:
    """Whether an answer is another role than the true one."""
    return answer not in {truth, "unknown"}


def measure(profile: str, seconds: float) -> Counts:
    """Run all kinds of clients over a listener for so long; return both agents' answers."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="confusion-")))
        artifacts = fetch_artifacts(say=lambda text: print(text, file=sys.stderr))
        cluster = KafkaCluster(artifacts, brokers=3, listeners=(profile,))
        stage = Stage(artifacts, stack.enter_context(cluster), stack, folder)
        for generation in CLIENT_GENERATIONS:
            stage.java(generation)
        stage.librdkafka()
        watches = {
            "with the clients' metrics": stage.watch(),
            "from the kernel alone": stage.watch(metrics=False),
        }
        populate(stage.processes)
        time.sleep(seconds)
        truths = stage.truth()
        return {
            name: score(watch.snapshot, truths, roles_only=True).confusion
            for name, watch in watches.items()
        }


def populate(processes: Mapping[str, ClientProcess]) -> None:
    """Give each process one of every kind of client, at work."""
    everywhere = range(PARTITIONS)
    next(iter(processes.values())).cluster.create_topic(TOPIC, PARTITIONS)
    for label, process in processes.items():
        process.producer(f"orders-{label}")
        process.send(
            f"orders-{label}", TOPIC, partitions=everywhere, rounds=-1, interval=1, wait=False
        )
        process.producer(f"idle-{label}")
        process.send(f"idle-{label}", TOPIC, partitions=everywhere)
        process.producer(
            f"payments-{label}", properties={"transactional.id": f"{label}-{process.pid}"}
        )
        process.send(
            f"payments-{label}", TOPIC, partitions=everywhere, rounds=-1, interval=3, wait=False
        )
        process.consumer(f"group-{label}", topics=[TOPIC], group=f"{label}-{process.pid}")
        process.consumer(f"assigned-{label}", assign=[f"{TOPIC}:0", f"{TOPIC}:1"])
        process.admin(f"operator-{label}")
        process.ask(f"operator-{label}")
        # librdkafka's AdminClient calls itself a producer until it has asked what only it can ask.
        process.ask(f"operator-{label}", "configs", brokers=(1, 2, 3))
        if label in {"4.4.0", "librdkafka"}:
            process.consumer(
                f"new-group-{label}",
                topics=[TOPIC],
                group=f"new-{label}-{process.pid}",
                properties={"group.protocol": "consumer"},
            )


def _table(confusion: Confusion) -> str:
    used = [answer for answer in ANSWERS if any(confusion[role, answer] for role in ROLES)]
    lines = [_line(["role", *used]), _line(["---", *["---:" for _ in used]])]
    lines += [
        _line([role, *(str(confusion[role, answer] or "") for answer in used)])
        for role in ROLES
        if any(confusion[role, answer] for answer in used)
    ]
    return "\n".join(lines) + "\n"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
