"""Measure the cost of each verb beside other designs: the server's CPU alone, without client, network and fsync."""

from __future__ import annotations

import argparse
import shlex
import sys
from functools import partial
from pathlib import Path

from verification.benchmarks import machine
from verification.benchmarks.cluster import Cluster, throw_away
from verification.benchmarks.design import CHANNEL_ROW, PGQUEUE, Design, migrate

from . import statements
from .budgets import Results, budgets
from .report import costs
from .stations import ROW, Calls, of_ours, stations

# Nothing waits for a disk, and no other session works: a loop measures its own backend. How many full pages it
# would log says when the last checkpoint was.
SETTINGS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "autovacuum": "off"}

NOTES = """\
µs of server CPU a message, commit included: calls in a DO block on one connection, one commit a call, with
synchronous_commit and full_page_writes off. Contestants take turns; figures are medians of the rounds, ratios medians
of the ratios of one round. The time in which another process had the processor is taken off. Compare ratios: the
machine may be twice as fast in the next hour, and a busy one makes the longer code slower than the shorter."""


def arguments(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m verification.benchmarks cost", description=__doc__)
    parser.add_argument("--calls", type=int, default=2_000, help="calls of each verb in a round (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="how often the contestants take turns (%(default)s)")
    parser.add_argument("--markdown", action="store_true", help="the tables as they stand in the docs")
    parser.add_argument(
        "--no-statements", dest="statements", action="store_false", help="leave out the tables of where the time goes"
    )
    parser.add_argument(
        "--beside",
        type=Path,
        action="append",
        default=[],
        metavar="FOLDER",
        help="measure one more version: another work tree of the project",
    )
    return parser.parse_args(given)


def another(folder: Path) -> Design:
    """Return the design of another work tree, which is migrated by its own code."""
    return Design(folder.resolve().name, PGQUEUE.scripts, partial(migrate, root=folder.resolve()))


def contestants(beside: list[Path]) -> list[Calls]:
    return [of_ours(PGQUEUE), *(of_ours(another(folder)) for folder in beside), ROW]


def measure(cluster: Cluster, everyone: list[Calls], calls: int, rounds: int) -> Results:
    """Visit all stations once a round; every second round backwards."""
    for one in everyone:
        one.design.prepare(cluster)
    results = Results()
    planned = stations(everyone, calls)
    for number in range(rounds):
        for station in reversed(planned) if number % 2 else planned:
            results.add(station, station.visit(cluster))
        print(f"  round {number + 1} of {rounds} is done", file=sys.stderr, flush=True)
    return results


def main(given: list[str]) -> None:
    chosen = arguments(given)
    everyone = contestants(chosen.beside)
    facts = machine.facts()
    with throw_away(**SETTINGS, **statements.preload()) as cluster:
        facts["PostgreSQL"] = cluster.version()
        facts["command"] = shlex.join(["python", "-m", "verification.benchmarks", "cost", *given])
        print("\n".join(f"{name}: {value}" for name, value in facts.items()), end="\n\n", flush=True)
        others = machine.Others(cluster.postmaster)
        others.start()
        results = measure(cluster, everyone, chosen.calls, chosen.rounds)
        busy = others.cores()
        print(costs(results, [one.name for one in everyone], CHANNEL_ROW.name, markdown=chosen.markdown), end="\n\n")
        print("\n".join(map(str, budgets(results, PGQUEUE.name, CHANNEL_ROW.name))), end="\n\n")
        print(f"others' cores meanwhile: {busy:.2f}")
        print(NOTES, flush=True)
        if chosen.statements:
            print()
            print(statements.report(cluster, everyone[0], chosen.calls, markdown=chosen.markdown))
