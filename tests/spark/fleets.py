"""Simulated fleets, and the batch job on them."""

from __future__ import annotations

import argparse

from fleet_simulator import command

__all__ = ["FAULTS", "batch", "journal_lines", "quiet", "simulate"]

FAULTS = (
    "duplicates=0.1,disorder=0.2,garbage=0.01,newer=0.01,older=0.3,restarts=0.5,clock_steps=0.4"
)


def simulate(folder, *flags, agents=14, hours=4):
    """Write a fleet's journals and truth."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    size = [f"--agents={agents}", f"--hours={hours}", "--seed=7", "--processes=1", "--shards=2"]
    assert command.run(parser.parse_args([*size, f"--out={folder}", *flags])) == 0
    return folder


def journal_lines(fleet):
    return [
        line
        for path in sorted((fleet / "journal").rglob("*.jsonl"))
        for line in path.read_text("utf-8").splitlines(keepends=True)
    ]


def quiet(_line):
    pass


def batch(tables, *inputs):
    from spark_rollups.jobs.batch import batch_files

    return batch_files(tables, [str(path) for path in inputs], quiet)
