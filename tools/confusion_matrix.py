"""Compare brokerwire's roles with what clients say, and write docs/internals/confusion.md.

    python -m tools.confusion_matrix             (some six minutes; needs the Kafka lab)
    python -m tools.confusion_matrix --seconds 90 --profile PLAINTEXT

Every kind of client of three Java generations and of librdkafka runs against a real cluster, once
for each profile (a listener), many of them idle. Two agents watch at once: one reads the clients'
metrics, one has nothing but the kernel. What the second one read is given again to an engine that
knows less: as an agent would without the right to look into the processes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from exporter.model import Library, OwnerRung
from tests.lab.artifacts import fetch_artifacts
from tests.lab.cluster import KafkaCluster
from tests.lab.versions import CLIENT_GENERATIONS
from tests.scenarios.kernel_recording import Recorder, Recording, replay
from tests.scenarios.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from exporter.model import Connection, Owner
    from tests.lab.clients import ClientProcess

__all__ = ["Answer", "main", "measure", "populate"]

PROFILES = ("PLAINTEXT", "SSL")
PAGE = Path(__file__).resolve().parents[1] / "docs" / "internals" / "confusion.md"
ROLES = ("bootstrap", "coordinator", "transaction", "data in use", "data, idle", "admin")
ANSWERS = ("bootstrap", "coordinator", "transaction", "data", "admin", "probe", "unknown")
CONFIDENT = frozenset({"exact", "strong"})
TOPIC, LONE = "confusion", "lone"
PARTITIONS = 6

# A connection is in use whose last byte came so long after its opening.
IN_USE_SECONDS = 10.0

# Eight heartbeats each 5 s tell a coordinator of the new group protocol.
SECONDS = 60.0

LEVELS = {
    "metrics": "the clients' metrics",
    "groups": "the application's uid and a shared pid namespace",
    "process": "its process is known, its client groups are not",
    "container": "nothing of the application's: sockets by container",
}

HEAD = """\
# Accuracy of roles

Real clients (Java {generations}, librdkafka) of every kind on three brokers, half of them idle; for
each connection the role that its client says it has (rows) against the role that brokerwire answers
(columns). Every figure is a number of connections.
`unknown` is an answer. A wrong role with confidence `exact` or `strong` is a bug, and fails the
scenario tests; of the roles with confidence `weak`, some are wrong.
An AdminClient of librdkafka reports itself as a producer until its first admin request: until then
its connections count as `data`.

Written by `python -m tools.confusion_matrix`; a few connections more or less are chance.

Levels of access, each including those below it:
"""


class Answer(NamedTuple):
    """One connection: what it is, what was said of it, and how sure that was."""

    library: str
    truth: str
    answer: str
    is_confident: bool
    is_named: bool

    @property
    def is_right(self) -> bool:
        """Whether the role was told."""
        return self.truth.replace(",", " ").split()[0] == self.answer

    @property
    def is_wrong(self) -> bool:
        """Whether the answer is another role than the true one."""
        return self.answer != "unknown" and not self.is_right


Answers = dict[str, list[Answer]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure every profile and write the page; 1 where a confident role was wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--profile", action="append", choices=PROFILES)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    options = parser.parse_args(arguments)
    found = {each: measure(each, options.seconds) for each in options.profile or PROFILES}
    head = HEAD.format(generations=", ".join(CLIENT_GENERATIONS))
    levels = "".join(f"- **{name}**: {text}\n" for name, text in LEVELS.items())
    pages = [head + "\n" + levels, "## By level of access\n\n" + _overview(found)]
    for profile, levels_found in found.items():
        for level, answers in levels_found.items():
            pages.append(f"## {profile}, {level}\n\n{_table(answers)}")
    PAGE.write_text("\n".join(pages), encoding="utf-8")
    wrong = [
        (profile, level, each)
        for profile, levels_found in found.items()
        for level, answers in levels_found.items()
        for each in answers
        if each.is_wrong and each.is_confident
    ]
    print(f"wrote {PAGE}; {len(wrong)} wrong and confident", *wrong, sep="\n")
    return 1 if wrong else 0


def measure(profile: str, seconds: float) -> Answers:
    """Run all kinds of clients over a listener for so long; return each level's answers."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="confusion-")))
        artifacts = fetch_artifacts(say=lambda text: print(text, file=sys.stderr))
        cluster = KafkaCluster(artifacts, brokers=3, listeners=(profile,))
        stage = Stage(artifacts, stack.enter_context(cluster), stack, folder)
        for generation in CLIENT_GENERATIONS:
            stage.java(generation)
        stage.librdkafka()
        with_metrics, without = stage.watch(), stage.watch(metrics=False)
        recorder = Recorder(without.agent.engine, Recording(profile, time.time()))
        populate(stage.processes)
        time.sleep(seconds)
        truths = stage.truth()
        snapshot = with_metrics.snapshot
        recorder.note_truth(truths)
    answers = {"metrics": _answers(snapshot.connections, truths)}
    for level, options in _RIGHTS.items():
        *_, (engine, told) = replay(recorder.recording, **options)
        answers[level] = _answers(engine.connections, told)
    return answers


def _as_container(owner: Owner) -> Owner:
    """Return what is known of an owner whose process nobody may look into."""
    return replace(
        owner, key=f"cgroup:{owner.key}", rung=OwnerRung.CGROUP, pid=None, started=None,
        library=Library.UNKNOWN,
    )  # fmt: skip


_RIGHTS: Mapping[str, Mapping[str, object]] = {
    "groups": {},
    "process": {"with_groups": False},
    "container": {"with_groups": False, "owner_of": _as_container},
}


def _answers(connections: Iterable[Connection], truths: Iterable[object]) -> list[Answer]:
    told = {(truth.local, truth.remote): truth for truth in truths}
    found = []
    for each in connections:
        truth = told.get((str(each.local), str(each.remote)))
        if truth is None:
            continue
        role = truth.role
        if role == "data":
            used = each.age_seconds - (each.idle_seconds or 0.0) >= IN_USE_SECONDS
            role = "data in use" if used else "data, idle"
        library = "librdkafka" if truth.name.endswith("librdkafka") else "Java"
        is_confident = each.confidence in CONFIDENT
        found.append(Answer(library, role, str(each.role), is_confident, bool(each.client_id)))
    return found


def _overview(found: Mapping[str, Answers]) -> str:
    """Return what share of each role is told, and how often that was wrong, by level."""
    lines = [_line(["", *LEVELS]), _line(["---", *["---:" for _ in LEVELS]])]
    for library in ("Java", "librdkafka"):
        for profile, levels in found.items():
            for role in ROLES:
                rows = {
                    level: [a for a in answers if a.library == library and a.truth == role]
                    for level, answers in levels.items()
                }
                if any(rows.values()):
                    cells = [_told(rows[level]) for level in LEVELS]
                    lines.append(_line([f"{library}, {profile}: {role}", *cells]))
    every = [(level, a) for levels in found.values() for level in levels for a in levels[level]]
    for words, counts in (
        ("its client has a name, a number at least", lambda a: a.is_named),
        ("wrong, `weak`", lambda a: a.is_wrong and not a.is_confident),
        ("wrong, `strong` or `exact`", lambda a: a.is_wrong and a.is_confident),
    ):
        cells = [
            f"{sum(counts(a) for at, a in every if at == level)} of"
            f" {sum(at == level for at, _ in every)}"
            for level in LEVELS
        ]
        lines.append(_line([words, *cells]))
    return "\n".join(lines) + "\n"


def _told(answers: Sequence[Answer]) -> str:
    if not answers:
        return ""
    right = sum(answer.is_right for answer in answers)
    return f"{100 * right / len(answers):.0f}% of {len(answers)}"


def populate(processes: Mapping[str, ClientProcess]) -> None:
    """Give each process one of every kind of client at work, and as many that rest."""
    everywhere = range(PARTITIONS)
    cluster = next(iter(processes.values())).cluster
    cluster.create_topic(TOPIC, PARTITIONS)
    cluster.create_topic(LONE, 1)
    for label, process in processes.items():
        process.producer(f"orders-{label}")
        process.send(
            f"orders-{label}", TOPIC, partitions=everywhere, rounds=-1, interval=1, wait=False
        )
        process.producer(f"idle-{label}")
        process.send(f"idle-{label}", TOPIC, partitions=everywhere)
        # All that it sends goes to one broker.
        process.producer(f"quiet-{label}")
        process.send(f"quiet-{label}", TOPIC, partitions=[1])
        # One of two members of a group has no partition.
        for member in ("first", "spare"):
            process.consumer(f"{member}-{label}", topics=[LONE], group=f"lone-{process.pid}")
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


def _table(answers: Sequence[Answer]) -> str:
    counts = Counter((each.truth, each.answer) for each in answers)
    used = [answer for answer in ANSWERS if any(counts[role, answer] for role in ROLES)]
    lines = [_line(["role", *used]), _line(["---", *["---:" for _ in used]])]
    lines += [
        _line([role, *(str(counts[role, answer] or "") for answer in used)])
        for role in ROLES
        if any(counts[role, answer] for answer in used)
    ]
    return "\n".join(lines) + "\n"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
