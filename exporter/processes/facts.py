"""What is known of a process: identity, name, command line, and which Kafka library it uses."""

from __future__ import annotations

__all__ = [
    "ProcessFacts",
    "all_pids",
    "learn_process",
    "library_of",
    "matches",
    "process_key",
    "start_ticks",
]

import os
import re
from dataclasses import dataclass, field
from itertools import islice
from pathlib import PurePath
from typing import TYPE_CHECKING

import psutil

from exporter.model import Library

if TYPE_CHECKING:
    from collections.abc import Sequence

    from exporter.config.settings import ProcessRule

# Position of the start time among the fields that follow the command's closing bracket in
# /proc/PID/stat: field 22 of 52, and the first one there is field 3.
_START_FIELD = 22 - 3
# librdkafka calls its threads rdk:main, rdk:broker1 and so on.
_RDKAFKA_THREAD = "rdk:"
_MOST_THREADS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFacts:
    """One process; `pid` with `ticks` (its start, in clock ticks since boot) is its identity."""

    pid: int
    ticks: int
    started: float
    name: str
    command: str = field(repr=False)
    """Only for the rules: people put passwords there."""
    uid: int | None

    @property
    def key(self) -> str:
        """The identity as text, equal for this process alone as long as the machine runs."""
        return _key(self.pid, self.ticks)


def _key(pid: int, ticks: int) -> str:
    return f"pid:{pid}@{ticks}"


def process_key(pid: int, *, proc: str = "/proc") -> str | None:
    """Return the `ProcessFacts.key` of the process that has this pid now; None when none has."""
    ticks = start_ticks(pid, proc=proc)
    return None if ticks is None else _key(pid, ticks)


def all_pids(proc: str = "/proc") -> set[int]:
    """Return every process that can be seen."""
    with os.scandir(proc) as entries:
        return {int(entry.name) for entry in entries if entry.name.isdigit()}


def start_ticks(pid: int, *, proc: str = "/proc") -> int | None:
    """Return when the process started; None when there is none (or none to be seen).

    Ticks since boot: unlike seconds since the epoch they do not move when the clock is set.
    """
    try:
        with open(f"{proc}/{pid}/stat", "rb") as file:  # noqa: PTH123 - a hot path
            text = file.read()
    except OSError:
        return None
    # The command stands in brackets and may hold any character, brackets included.
    fields = text[text.rfind(b")") + 1 :].split()
    return int(fields[_START_FIELD]) if len(fields) > _START_FIELD else None


def learn_process(pid: int, *, proc: str = "/proc") -> ProcessFacts | None:
    """Ask psutil for a process; None when it ended or when its pid changed hands meanwhile."""
    before = start_ticks(pid, proc=proc)
    if before is None:
        return None
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            name, started = process.name(), process.create_time()
            command = _command(process)
            uid = process.uids().effective
    except psutil.Error:
        return None
    if start_ticks(pid, proc=proc) != before:
        return None
    return ProcessFacts(pid=pid, ticks=before, started=started, name=name, command=command, uid=uid)


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.AccessDenied:
        # Some hardened kernels hide the command line but not the name.
        return ""


def matches(process: ProcessFacts, rules: Sequence[ProcessRule]) -> bool:
    """Return whether one of the rules means this process."""
    return any(
        (rule.name is None or re.search(rule.name, process.name) is not None)
        and (rule.command is None or re.search(rule.command, process.command) is not None)
        for rule in rules
    )


def library_of(process: ProcessFacts, *, proc: str = "/proc") -> Library:
    """Return the Kafka library, by the program or, for librdkafka, by the names of its threads."""
    program = process.command.split(" ", 1)[0]
    if "java" in (process.name, PurePath(program).name):
        return Library.JAVA
    try:
        with os.scandir(f"{proc}/{process.pid}/task") as threads:
            for thread in islice(threads, _MOST_THREADS):
                if _thread_name(f"{thread.path}/comm").startswith(_RDKAFKA_THREAD):
                    return Library.LIBRDKAFKA
    except OSError:
        # The process ended.
        return Library.UNKNOWN
    return Library.UNKNOWN


def _thread_name(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - a hot path
            return file.read()
    except OSError:
        # The thread ended.
        return ""
