"""`brokerwire check`: thresholds for scripts and CI gates, answered by the exit code."""

from __future__ import annotations

__all__ = ["DEFAULTS", "Threshold", "add_parser", "judge"]

import argparse
import json
from typing import TYPE_CHECKING, NamedTuple

from exporter.commands.arguments import Commands, add_look_flags, add_output_flags
from exporter.commands.output import say, talk, tsv
from exporter.model import WASTED_CLASSES, ConnectionClass

if TYPE_CHECKING:
    from exporter.commands.looking import Document

CROSSED = 4
NOTHING_SEEN = 5

EPILOG = """\
examples:
  brokerwire check                    no waste of any kind
  brokerwire check --max zombie=0 --max half_closed=2 --min-efficiency 0.8
  brokerwire check --pid 4711 --for 30s --min-connections 3 --json
  brokerwire check --allow-empty      for hosts that may have no client

A check that saw no connection fails, unless --allow-empty is given. So does
--min-efficiency where the efficiency is unknown.

exit codes: 0 passed, 2 usage or configuration, 3 nothing readable,
  4 a threshold is crossed, 5 nothing to check"""


_COLUMNS = ("result", "name", "value", "bound", "limit")


class Threshold(NamedTuple):
    """The most connections of a class, or of all (`connections`)."""

    name: str
    most: int


# Without flags: what is waste in every case. Bootstrap connections pass by themselves.
DEFAULTS = tuple(Threshold(str(each), 0) for each in WASTED_CLASSES)


class _Verdict(NamedTuple):
    name: str
    value: float | None
    limit: float
    is_least: bool
    passed: bool
    is_empty: bool = False


def add_parser(commands: Commands) -> None:
    """Add `check`."""
    parser = commands.add_parser(
        "check",
        help="compare with thresholds: exit code 0, 4 or 5",
        description="Compare this host's connections with thresholds, for scripts and CI gates.",
        epilog=EPILOG,
    )
    add_look_flags(parser)
    parser.add_argument(
        "--max",
        dest="most",
        type=_threshold,
        action="append",
        metavar="CLASS=N",
        help="the most connections of a class, or of all (connections=N); may be given several"
        f" times (default: {', '.join(f'{each.name}=0' for each in DEFAULTS)})",
    )
    parser.add_argument(
        "--min-efficiency",
        type=_ratio,
        metavar="RATIO",
        help="the least share of useful connection-seconds, 0 to 1",
    )
    parser.add_argument(
        "--min-connections",
        type=_count,
        default=1,
        metavar="N",
        help="the least connections (default 1)",
    )
    parser.add_argument(
        "--allow-empty", action="store_true", help="pass where there is nothing to check"
    )
    add_output_flags(parser, document="the verdicts")
    parser.set_defaults(execute=_execute)


def _threshold(text: str) -> Threshold:
    name, equals, number = text.partition("=")
    names = ["connections", *ConnectionClass]
    if not equals or name not in names or not number.isdecimal() or not number.isascii():
        raise argparse.ArgumentTypeError(
            f"must be CLASS=N, one of {', '.join(names)}, not {text!r}"
        )
    return Threshold(name, int(number[:9]))


def _ratio(text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to 1, not {text!r}")
    return ratio


def _count(text: str) -> int:
    if not text.isdecimal() or not text.isascii():
        raise argparse.ArgumentTypeError(f"must be a whole number, not {text!r}")
    return int(text[:9])


def _execute(options: argparse.Namespace) -> int:
    from exporter.commands.looking import look

    verdicts = judge(
        look(options),
        tuple(options.most or ()) or _defaults(options),
        options.min_efficiency,
        options.min_connections,
        allow_empty=options.allow_empty,
    )
    passed = all(verdict.passed for verdict in verdicts)
    if options.output == "tsv":
        say(tsv([_COLUMNS, *(_cells(verdict) for verdict in verdicts)]))
    elif options.output == "json":
        checks = [verdict._asdict() for verdict in verdicts]
        say(json.dumps({"passed": passed, "checks": checks}) + "\n")
    else:
        say("".join(f"{_words(verdict)}\n" for verdict in verdicts))
    if passed:
        return 0
    if any(not each.passed and not each.is_empty for each in verdicts):
        return CROSSED
    talk(
        "nothing to check: watch other ports with --ports, look longer with --for,"
        " or allow it with --allow-empty"
    )
    return NOTHING_SEEN


def _defaults(options: argparse.Namespace) -> tuple[Threshold, ...]:
    return DEFAULTS if options.min_efficiency is None else ()


def judge(
    document: Document,
    most: tuple[Threshold, ...],
    least_efficiency: float | None = None,
    least_connections: int = 1,
    *,
    allow_empty: bool = False,
) -> list[_Verdict]:
    """Compare a document with thresholds. What saw nothing fails: a gate must not pass unseen."""
    connections = document["connections"]
    verdicts = []
    for name, limit in most:
        value = sum(name in {"connections", one.get("class")} for one in connections)
        verdicts.append(_Verdict(name, value, limit, is_least=False, passed=value <= limit))
    count = len(connections)
    if not (allow_empty and count == 0):
        enough = count >= least_connections
        verdicts.append(
            _Verdict("connections", count, least_connections, True, enough, is_empty=count == 0)
        )
    if least_efficiency is not None:
        efficiency = document["summary"].get("efficiency")
        is_unknown = efficiency is None
        enough = allow_empty if is_unknown else efficiency >= least_efficiency
        verdicts.append(
            _Verdict("efficiency", efficiency, least_efficiency, True, enough, is_unknown)
        )
    return verdicts


def _cells(verdict: _Verdict) -> tuple[object, ...]:
    side = "min" if verdict.is_least else "max"
    return "ok" if verdict.passed else "fail", verdict.name, verdict.value, side, verdict.limit


def _words(verdict: _Verdict) -> str:
    mark = "ok  " if verdict.passed else "FAIL"
    side = "min" if verdict.is_least else "max"
    value = "unknown" if verdict.value is None else f"{verdict.value:g}"
    return f"{mark} {verdict.name}: {value} ({side} {verdict.limit:g})"
