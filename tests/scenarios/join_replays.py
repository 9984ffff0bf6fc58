"""Judge the join over recordings again, without a lab: a line each, and what was not right.

python -m tests.scenarios.join_replays runs/*.json.gz
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tests.scenarios.join_recording import (
    Recording,
    begun_late,
    judge_replay,
    without_groups,
)
from tests.scenarios.join_verdicts import AGES, share

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what was counted; 1 if an answer was wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.scenarios.join_replays", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("recording", nargs="+", type=Path)
    parser.add_argument("--late", type=float, default=0, help="begin so many seconds into each")
    parser.add_argument("--no-groups", action="store_true", help="as if /proc could not be read")
    parser.add_argument("--quiet", action="store_true", help="the counts alone")
    options = parser.parse_args(arguments)
    total = {age: Counter[str]() for age in AGES}
    exact: Counter[int] = Counter()
    wrong = 0
    for path in options.recording:
        recording = Recording.load(path)
        if options.late:
            recording = begun_late(recording, options.late)
        if options.no_groups:
            recording = without_groups(recording)
        verdicts = judge_replay(recording, AGES)
        wrong_here = sum(told.wrong_looks > 0 for told in verdicts.told.values())
        print(
            f"{path.name.partition('.')[0]:36} {_counted(verdicts.counts, verdicts.exact)} ever wrong {wrong_here}"
        )
        for failure in () if options.quiet else verdicts.failures():
            print(f"    {failure}")
        wrong += wrong_here
        for age in AGES:
            total[age] += verdicts.counts(age)
            exact[age] += verdicts.exact(age)
    print(f"{'all':36} {_counted(total.__getitem__, exact.__getitem__)} ever wrong {wrong}")
    return int(wrong > 0)


def _counted(counts_at, exact_at) -> str:
    parts = []
    for age in AGES:
        counts = counts_at(age)
        part = share(counts)
        told = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
        parts.append(
            f"{age} s: {'-' if part is None else f'{part:.1%}'}, {exact_at(age)} of"
            f" {counts.total()} alone ({told})"
        )
    return "; ".join(parts)


if __name__ == "__main__":
    sys.exit(main())
