"""One look at the connections: by watching for a few seconds, or by asking a running agent."""

from __future__ import annotations

__all__ = ["Document", "is_process", "look", "looks", "snapshot_for_process"]

import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from exporter.commands.answers import Document, document_from_answer
from exporter.commands.arguments import settings_of
from exporter.config.settings import LogSettings, StatisticsSettings
from exporter.errors import (
    NotFoundError,
    SourceError,
    SourceUnavailableError,
    UsageError,
)
from exporter.model import ConnectionClass
from exporter.snapshot import ClientBroker

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from exporter.config.settings import Settings
    from exporter.snapshot import Snapshot

CONNECTIONS_PATH = "/api/v1/connections"
ANSWER_SECONDS = 10.0
# 50,000 connections at a kilobyte each: five times the default of limits.connections.
LARGEST_ANSWER = 64 << 20


def look(options: argparse.Namespace) -> Document:
    """Return the API's document, as `--agent` says it or as this process sees it.

    Raises:
        NotFoundError: there is no such process.
        SourceError: nothing could be read.
        UsageError: the flags do not go together.
    """
    for document in looks(options, once=True):
        return document
    raise AssertionError("a look without an answer")


def looks(
    options: argparse.Namespace,
    *,
    once: bool = False,
    rest: Callable[[float], object] = time.sleep,
) -> Iterator[Document]:
    """Give one document after the other, the first one after `--for`."""
    if options.file is not None:
        if options.agent is not None or options.pid is not None:
            raise UsageError("--from does not go with --agent or --pid: the file is all there is")
        yield from _same(options.file, rest=rest)
        return
    if options.agent is not None:
        if options.pid is not None:
            raise UsageError("--pid does not go with --agent: the agent shows all processes")
        yield from _answers(options.agent, once=once, rest=rest)
        return
    if options.pid is not None and not is_process(options.pid):
        raise NotFoundError(f"--pid: there is no process {options.pid}")
    yield from _own_looks(_watching(settings_of(options)), options, once=once, rest=rest)


def _same(path: str, *, rest: Callable[[float], object]) -> Iterator[Document]:
    from exporter.commands.bundle import document_from_file

    document = document_from_file(path)
    while True:
        yield document
        rest(1.0)


def _own_looks(
    settings: Settings,
    options: argparse.Namespace,
    *,
    once: bool,
    rest: Callable[[float], object],
) -> Iterator[Document]:
    from exporter.agent import Agent
    from exporter.logs import set_up_logging
    from exporter.web.document import connections_document

    with ExitStack() as stack:
        # Errors of sources stand in the document; only the agent's own are to be seen.
        stack.callback(set_up_logging(LogSettings(level="warn")).close)
        agent = stack.enter_context(Agent(settings))
        seconds = options.seconds
        while True:
            rest(seconds)
            snapshot = agent.snapshot()
            if snapshot is None or snapshot.poll.error is not None:
                raise SourceUnavailableError(
                    "the socket table cannot be read; the reason stands above"
                )
            if options.pid is not None:
                snapshot = snapshot_for_process(snapshot, options.pid)
            yield connections_document(snapshot)
            if once:
                return
            seconds = max(settings.poll.interval, 1.0)


def _watching(settings: Settings) -> Settings:
    """Return the settings of a look: a running agent keeps its inlets to itself."""
    return replace(
        settings, sources=replace(settings.sources, librdkafka=StatisticsSettings(http=False))
    )


def _answers(url: str, *, once: bool, rest: Callable[[float], object]) -> Iterator[Document]:
    while True:
        yield _answer(url)
        if once:
            return
        rest(1.0)


def _answer(url: str) -> Document:
    from exporter.http.fetch import fetch

    base = url.rstrip("/").removesuffix(CONNECTIONS_PATH)
    response = fetch(
        base + CONNECTIONS_PATH, timeout_seconds=ANSWER_SECONDS, max_bytes=LARGEST_ANSWER
    )
    document = document_from_answer(response.body, response.where)
    if document.get("stale"):
        raise SourceError(f"{response.where}: the agent's last poll is too old to be believed")
    return document


def is_process(pid: int) -> bool:
    """Tell whether a process with this id runs."""
    import psutil

    try:
        return pid > 0 and psutil.pid_exists(pid)
    except (OverflowError, ValueError):
        return False


def snapshot_for_process(snapshot: Snapshot, pid: int) -> Snapshot:
    """Return what a snapshot says of one process.

    Expectations and seconds are kept by process name: of processes that share it, they are the sum.
    """
    connections = tuple(each for each in snapshot.connections if each.owner.pid == pid)
    counted: dict[ClientBroker, Counter[ConnectionClass]] = {}
    for each in connections:
        counted.setdefault(ClientBroker.of(each), Counter())[each.connection_class] += 1
    cookies = {each.cookie for each in connections}
    names = {each.owner.name for each in connections}
    totals = snapshot.totals
    spent = {key: value for key, value in totals.connection_seconds.items() if key[0] in counted}
    useful = {key: value for key, value in totals.useful_seconds.items() if key in counted}
    return replace(
        snapshot,
        connections=connections,
        counts={
            key: {each: counts[each] for each in ConnectionClass} for key, counts in counted.items()
        },
        expected={key: value for key, value in snapshot.expected.items() if key in counted},
        findings=tuple(
            finding
            for finding in snapshot.findings
            if cookies.intersection(finding.cookies)
            or (not finding.cookies and finding.labels.get("process") in {None, *names})
        ),
        totals=replace(totals, connection_seconds=spent, useful_seconds=useful),
        process_clients=tuple(each for each in snapshot.process_clients if each.pid == pid),
    )
