"""The pipeline beside programs without Spark, in the same run, on the same server."""

from __future__ import annotations

import argparse
import shlex
import sys

from verification.benchmarks import machine
from verification.benchmarks.cluster import SETTINGS

from . import engines, enqueue, export, increment, redrive, rollup, turns

# Each takes rows and rounds, and returns the lines of its report.
MEASURES = {
    "export": export.measure, "enqueue": enqueue.measure, "redrive": redrive.measure,
    "rollup": rollup.measure, "increment": increment.measure, "turns": turns.measure, "engines": engines.measure,
}  # fmt: skip

NOTES = """\
Export: each contestant is a process that is up and warm, its connection made anew; it reads the same columns and
writes zstd Parquet, synced to disk: copy and adbc one file, the export a lake. Memory is PSS of all its processes,
sampled; of Spark it includes the JVM, whose heap may grow to 1 GiB. Enqueue: Spark reads its frame from Parquet; copy
writes as many messages into their table, in one transaction of one process."""


def arguments(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m verification.benchmarks spark", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(MEASURES)}; default: all")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3, help="how often the contestants take turns")
    chosen = parser.parse_args(given)
    if unknown := set(chosen.names) - set(MEASURES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(MEASURES)}")
    return chosen


def main(given: list[str]) -> None:
    chosen = arguments(given)
    facts = machine.facts() | {
        "PostgreSQL": ", ".join(f"{name}={value}" for name, value in SETTINGS.items()),
        "command": shlex.join(["python", "-m", "verification.benchmarks", "spark", *given]),
    }
    print("\n".join(f"{name}: {value}" for name, value in facts.items()), end="\n\n", flush=True)
    for name in chosen.names or MEASURES:
        print("\n".join(MEASURES[name](chosen.rows, chosen.rounds)), end="\n\n", flush=True)
    print(NOTES)


if __name__ == "__main__":
    main(sys.argv[1:])
