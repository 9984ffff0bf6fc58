"""Run the simulation from the command line: rates by profile, and a story for each wrong answer."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tests.property.join_simulation.runs import MILESTONES, Result, Verdict, simulate
from tests.property.join_simulation.security import PROFILES
from tests.property.join_simulation.traits import TRAITS


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    traits = dict.fromkeys(options.having, True) | dict.fromkeys(options.without, False)
    if options.only is not None:
        traits = dict.fromkeys(TRAITS, False) | dict.fromkeys(options.only, True)
    if options.story is not None:
        simulate(options.profile[0], options.story, traits, tell=print, only=options.socket)
        return 0
    wrong = 0
    for profile in options.profile or PROFILES:
        begun, used = time.monotonic(), time.process_time()
        run = partial(simulate, profile, traits=traits)
        seeds = range(options.seed, options.seed + options.runs)
        if options.jobs > 1:
            with ProcessPoolExecutor(options.jobs) as pool:
                results = list(pool.map(run, seeds, chunksize=8))
        else:
            results = [run(seed) for seed in seeds]
        wrong += _print(profile, results, options.stories)
        took = time.monotonic() - begun
        print(
            f"  {took:.1f} s, {took / options.runs * 1e3:.0f} ms a run, CPU {time.process_time() - used:.1f} s"
        )
    return int(wrong > 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.property.join_simulation", description=__doc__
    )
    parser.add_argument("--profile", action="append", choices=PROFILES, help="default: all")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1, help="the first run's; the others follow it")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--stories", type=int, default=20, help="how many wrong answers are told")
    parser.add_argument("--story", type=int, metavar="SEED", help="tell one run read by read")
    parser.add_argument("--socket", type=int, metavar="COOKIE", help="tell of this socket alone")
    for name, text in (
        ("having", "runs with these traits"),
        ("without", "runs without these traits"),
        ("only", "no other traits than these; '' for none at all"),
    ):
        default = None if name == "only" else ()
        parser.add_argument(
            f"--{name}", type=_traits, metavar="TRAIT,...", default=default, help=text
        )
    parser.epilog = f"Traits: {', '.join(TRAITS)}."
    return parser


def _traits(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in TRAITS:
            raise argparse.ArgumentTypeError(
                f"no such trait: {name!r}; there are {', '.join(TRAITS)}"
            )
    return names


def _print(profile: str, results: list[Result], stories: int) -> int:
    wrong = [result for result in results if result.wrongs]
    confident = sum(any(each.confident for each in result.wrongs) for result in wrong)
    print(
        f"{profile}: {len(results)} runs, {sum(each.sockets for each in results)} sockets, "
        f"{sum(each.reads for each in results)} reads, "
        f"laws held {sum(each.laws_checked for each in results)} times; wrong in {len(wrong)} runs, confident in {confident}"
    )
    for milestone in MILESTONES:
        rates: Counter[Verdict] = Counter()
        for result in results:
            rates += result.rates[milestone]
        total = max(1, rates.total())
        shares = ", ".join(
            f"{verdict} {rates[verdict] / total:.1%}" for verdict in Verdict if rates[verdict]
        )
        print(f"  {milestone:.0f} s: {rates.total()} sockets: {shares}")
    if wrong:
        print("  traits by the share of runs with them that went wrong:")
        shares = {
            name: (
                sum(each.traits[name] for each in wrong),
                sum(each.traits[name] for each in results),
            )
            for name in TRAITS
        }
        for name, (bad, all_of) in sorted(
            shares.items(), key=lambda kv: -kv[1][0] / max(1, kv[1][1])
        ):
            print(f"    {name}: {bad} of {all_of}")
    told = 0
    for result in wrong:
        for each in result.wrongs[:1]:
            if told < stories:
                print(f"  seed {each.seed}: {each.story}")
                told += 1
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
