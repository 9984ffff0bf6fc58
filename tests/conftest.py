"""What all tests share: the lab's fixtures, one second try for real processes, no skips in CI."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Generator

    from _pytest.terminal import TerminalReporter

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

# An example is slow where the machine is busy, which says nothing of the law that it tries.
# Other examples in each run, in CI too: Hypothesis would take the same ones there, for ever.
settings.register_profile("no deadline", deadline=None, derandomize=False)
settings.load_profile("no deadline")

pytest_plugins = ["tests.lab.fixtures"]

# They start brokers, JVMs, browsers and containers on a machine of two cores, and wait for moments
# that the scheduler decides on. A second try is printed (`-ra`) and counted in the last line.
TRIED_TWICE = ("browser", "container", "lab")

# Spark computes beside the tests of real brokers, at low priority.
SPARK_TIMEOUT_SECONDS = 1200


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests of real processes a second try; all others get one (docs/decisions/0008)."""
    for item in items:
        if item.get_closest_marker("spark") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SPARK_TIMEOUT_SECONDS))
        if any(item.get_closest_marker(name) for name in TRIED_TWICE):
            item.add_marker(pytest.mark.flaky(reruns=1))


# What a machine's kernel cannot do; all else that a test misses can be installed or is our mistake.
SKIPPED_IN_CI = ("needs cgroup v2", "needs a cgroup v2 that may be written")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let no test pass by being skipped."""
    report = yield
    return _without_skip(report)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let no module pass by being skipped."""
    report = yield
    return _without_skip(report)


def _without_skip(report: Report) -> Report:
    if os.environ.get("CI") and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not any(words in reason for words in SKIPPED_IN_CI):
            report.outcome = "failed"
            report.longrepr = f"{reason} (with CI set, a test that is skipped has failed)"
    return report


def pytest_unconfigure(config: pytest.Config) -> None:
    """Count the second tries: after pytest's own last line, so that no run hides them."""
    reporter: TerminalReporter | None = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        retried = sorted({report.nodeid for report in reporter.stats.get("rerun", [])})
        names = f" ({', '.join(retried)})" if retried else ""
        reporter.write_line(f"tests that needed a second try: {len(retried)}{names}")
