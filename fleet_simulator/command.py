"""`brokerwire-rollups simulate`: journals of a fleet that does not exist, and their truth."""

from __future__ import annotations

__all__ = ["add_arguments", "run"]

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TypeVar

from fleet_simulator.faults import FAULTS, Faults, parse_faults
from fleet_simulator.plan import DEFAULT_MIX, FIRST_HOUR_MS, Order, parse_mix
from fleet_simulator.writing import Output, write_fleet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_DONE, _USAGE = 0, 2
_T = TypeVar("_T")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what this command takes."""
    mix = ",".join(f"{name}={share}" for name, share in DEFAULT_MIX.items())
    parser.add_argument("--agents", type=int, required=True, help="how many pods, an agent each")
    parser.add_argument("--hours", type=int, required=True, help="how many hours of each week")
    parser.add_argument(
        "--weeks",
        type=int,
        default=1,
        help="the same hours of so many weeks, between which some services get better (1)",
    )
    parser.add_argument(
        "--mix", type=_checked(parse_mix), default=DEFAULT_MIX, help=f"shares of the pods: {mix}"
    )
    parser.add_argument(
        "--faults",
        type=_checked(parse_faults),
        default=Faults(),
        help=f"what goes wrong, as shares such as lost=0.001: {', '.join(FAULTS)} (none)",
    )
    parser.add_argument("--seed", type=int, default=0, help="another fleet of the same kind (0)")
    parser.add_argument(
        "--start-ms",
        type=int,
        default=FIRST_HOUR_MS,
        help="the first hour, in milliseconds since the epoch (2026-01-05 08:00 UTC)",
    )
    parser.add_argument(
        "--shards", type=int, default=0, help="so many files in all; 0 is a folder for each pod (0)"
    )
    parser.add_argument("--gz", action="store_true", help="compress the journals")
    parser.add_argument("--no-truth", action="store_true", help="journals only")
    parser.add_argument(
        "--processes", type=int, default=os.cpu_count() or 1, help="at once; all cores if not given"
    )
    parser.add_argument("--out", type=Path, required=True, help="a folder, new or empty")


def run(arguments: argparse.Namespace) -> int:
    """Write the fleet; what was written is told on standard output, progress on the other."""
    output = Output(
        folder=arguments.out,
        shards=arguments.shards,
        compress=arguments.gz,
        truth=not arguments.no_truth,
        processes=max(1, arguments.processes),
    )
    try:
        order = Order(
            agents=arguments.agents,
            hours=arguments.hours,
            weeks=arguments.weeks,
            seed=arguments.seed,
            start=arguments.start_ms,
            mix=arguments.mix,
        )
    except ValueError as error:
        sys.stderr.write(f"simulate: {error}\n")
        return _USAGE
    # Old journals beside new ones would be another fleet than the truth tells of.
    if output.folder.exists() and any(output.folder.iterdir()):
        sys.stderr.write(f"simulate: {output.folder} is not empty\n")
        return _USAGE
    summary = write_fleet(order, arguments.faults, output, _Progress())
    lines, size = int(str(summary["lines"])), int(str(summary["bytes"]))
    seconds = float(str(summary["seconds"]))
    sys.stdout.write(f"{lines} records, {size} bytes in {seconds:.1f} s: {output.folder}\n")
    sys.stderr.write(f"{lines / seconds:.0f} records/s, {size / seconds / 1e6:.0f} MB/s\n")
    return _DONE


class _Progress:
    """Tells how far it is, on a terminal more often than in a log."""

    def __init__(self) -> None:
        self._pause = 0.5 if sys.stderr.isatty() else 15.0
        self._next = time.monotonic() + self._pause

    def __call__(self, done: int, files: int, lines: int, size: int) -> None:
        if time.monotonic() >= self._next and done < files:
            sys.stderr.write(f"{done} of {files} files, {lines} records, {size} bytes\n")
            self._next = time.monotonic() + self._pause


def _checked(parse: Callable[[str], _T]) -> Callable[[str], _T]:
    """Let argparse show what the parser has to say."""

    def parsed(text: str) -> _T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parsed
