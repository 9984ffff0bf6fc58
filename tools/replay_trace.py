"""Half an hour of what real clients did, through the rules at their default durations.

The end-to-end run writes down what an agent beside healthy clients serves, scrape by scrape, while
a broker restarts and a process is replaced. Here those scrapes are played to promtool, second for
second: the whole trace, then its last quiet seconds over and over until the cycle is full, and the
next cycle. Counters go on where they were; nothing else is made up.
"""

from __future__ import annotations

__all__ = ["Trace", "quiet_cycles", "read_trace", "replay", "unit_test_of"]

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from prometheus_client.parser import text_string_to_metric_families

from exporter.alerts.catalogue import ALERTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

REPOSITORY = Path(__file__).parent.parent
RULES = REPOSITORY / "rules"
CACHE = Path(os.environ.get("BROKERWIRE_CACHE") or REPOSITORY / ".cache")
TRACE = CACHE / "healthy-trace.json"
CYCLE_SECONDS = 600
QUIET_SECONDS = 30
_ADDS_UP = re.compile(r"_(?:total|bucket|count|sum)(?:\{|$)")
_IS_TIME = re.compile(r"_(?:timestamp|start_time)_seconds(?:\{|$)")
_METRIC = re.compile(r"\b(?:kafka_client|brokerwire|process)_\w+")

Frame = dict[str, float]


@dataclass(frozen=True)
class Trace:
    """Scrapes at even distances; None where one was missed. `begun` is the wall clock's."""

    step: float
    begun: float
    frames: list[Frame | None]


def frame_of(text: str, wanted: frozenset[str], labels: Mapping[str, str]) -> Frame:
    """Return the samples of a scrape that the rules read, as Prometheus would name them."""
    frame = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in wanted:
                named = {**sample.labels, **labels}
                inner = ",".join(f"{key}={json.dumps(value)}" for key, value in named.items())
                frame[f"{sample.name}{{{inner}}}"] = float(sample.value)
    inner = ",".join(f"{key}={json.dumps(value)}" for key, value in labels.items())
    frame[f"up{{{inner}}}"] = 1.0
    return frame


def metrics_of_rules() -> frozenset[str]:
    """Return every metric that a rule reads."""
    return frozenset(
        name
        for file in ("alerts.yaml", "recording.yaml")
        for name in _METRIC.findall((RULES / file).read_text())
    )


def read_trace(path: Path, labels: Mapping[str, str]) -> Trace:
    """Return what a run wrote down."""
    told = json.loads(path.read_text())
    wanted = metrics_of_rules()
    frames = [None if text is None else frame_of(text, wanted, labels) for text in told["scrapes"]]
    return Trace(told["step"], told["begun"], frames)


def quiet_cycles(trace: Trace, seconds: float) -> list[Frame | None]:
    """Return scrapes for so long: the trace, its quiet end again and again, and the next cycle."""
    whole = range(len(trace.frames))
    quiet = whole[-round(QUIET_SECONDS / trace.step) :]
    played: list[Frame | None] = []
    gone: Frame = {}
    while len(played) * trace.step < seconds:
        room = round(CYCLE_SECONDS / trace.step)
        part = whole
        while room > 0:
            played += _go_on(trace, part[:room], gone, len(played) * trace.step)
            room -= len(part)
            part = quiet
    return played[: round(seconds / trace.step)]


def _go_on(trace: Trace, part: range, gone: Frame, begins: float) -> list[Frame | None]:
    """Play a part so that no counter goes back and every time is one of the play's own."""
    frames = [trace.frames[index] for index in part]
    known = [frame for frame in (*trace.frames[: part[0]][-1:], *frames) if frame is not None]
    # A series that comes later in the part has counted from then on.
    offset = {name: value - known[0].get(name, 0.0) for name, value in gone.items()}
    shift = begins - (trace.begun + part[0] * trace.step)
    played: list[Frame | None] = []
    for frame in frames:
        now = None
        if frame is not None:
            now = {}
            for name, value in frame.items():
                if _IS_TIME.search(name):
                    now[name] = value + shift
                elif _ADDS_UP.search(name):
                    now[name] = gone[name] = max(value + offset.get(name, 0.0), gone.get(name, 0.0))
                else:
                    now[name] = value
        played.append(now)
    return played


def unit_test_of(frames: Sequence[Frame | None], step: float) -> str:
    """Return promtool's test that no alert fires at any minute of the play."""
    names = sorted({name for frame in frames if frame is not None for name in frame})
    minutes = int(len(frames) * step // 60)
    return yaml.safe_dump(
        {
            "rule_files": [str(RULES / "alerts.yaml"), str(RULES / "recording.yaml")],
            "evaluation_interval": "15s",
            "tests": [
                {
                    "interval": f"{step:g}s",
                    "input_series": [
                        {"series": name, "values": _values(name, frames)} for name in names
                    ],
                    "alert_rule_test": [
                        {"eval_time": f"{minute}m", "alertname": alert.name, "exp_alerts": []}
                        for alert in ALERTS
                        for minute in range(1, minutes + 1)
                    ],
                }
            ],
        },
        sort_keys=False,
        width=10**9,
    )


def _values(name: str, frames: Iterable[Frame | None]) -> str:
    """Return one series in promtool's words: a missed scrape is no end of it, absence is."""
    words = []
    is_there = False
    for frame in frames:
        if frame is None:
            words.append("_")
        elif name in frame:
            is_there = True
            words.append(f"{frame[name]:.12g}")
        else:
            words.append("stale" if is_there else "_")
            is_there = False
    runs = [(word, len(list(run))) for word, run in groupby(words)]
    return " ".join(
        word if times == 1 or word == "stale" else f"{word}x{times if word == '_' else times - 1}"
        for word, times in runs
    )


def replay(promtool: str, trace: Trace, seconds: float) -> str:
    """Play a trace for so long; return what promtool says of alerts, empty where none fired."""
    text = unit_test_of(quiet_cycles(trace, seconds), trace.step)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        done = subprocess.run(
            [promtool, "test", "rules", file.name],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def main() -> int:
    """Play the last run's trace."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=int, default=30)
    parser.add_argument("--trace", type=Path, default=TRACE)
    parser.add_argument("--promtool", default=str(CACHE / "prometheus" / "bin" / "promtool"))
    options = parser.parse_args()
    if not options.trace.exists():
        print("no trace: run pytest tests/e2e first", file=sys.stderr)
        return 2
    trace = read_trace(options.trace, {"job": "brokerwire", "instance": "replay:10920"})
    fired = replay(options.promtool, trace, options.minutes * 60)
    print(fired or f"no alert in {options.minutes} minutes")
    return 1 if fired else 0


if __name__ == "__main__":
    sys.exit(main())
