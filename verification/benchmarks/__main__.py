"""Every figure beside its baselines, measured in the same run."""

from __future__ import annotations

import argparse
import shlex
import sys

from . import machine
from .cluster import SETTINGS, Cluster, throw_away
from .contest import Result, play
from .cost.command import main as cost
from .peers.command import main as compare
from .plan import DESIGNS, QUICK, Plan, Sizes
from .report import table
from .scale.command import main as scale
from .workloads import GROUPS, WORKLOADS

NOTES = """\
Client: pgbench, prepared statements, one process of producers and one of consumers. A consumer whose dequeue finds
nothing sleeps 1 ms, in every design. Completed messages are counted in the database (archive rows; without an archive,
numbered minus present) over a fixed window after a warm-up. Contestants take turns; each run has a fresh database.
Ratios are medians of the ratios of the runs of one round. raw_floor has neither leases nor an archive nor channels, and
one commit per message: it is the floor, not a rival. "Others' cores" is what other programs and the kernel's threads
used meanwhile; above 0.5 the figure says little."""


def arguments(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m verification.benchmarks", description=__doc__)
    groups = "; ".join(f"{group}: {', '.join(names)}" for group, names in GROUPS.items())
    parser.add_argument("names", nargs="*", metavar="name", help=f"a workload, or a group ({groups}); default: speed")
    parser.add_argument("--only", metavar="REGEX", help='measure the contestants whose "work · name" has a match')
    parser.add_argument(
        "--seconds",
        type=float,
        default=10,
        help="the window of one run; of pinned, requests, dump and export at least a minute",
    )
    parser.add_argument("--ready", type=int, default=Sizes().ready, help="messages of the large backlog (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="how often the contestants take turns")
    parser.add_argument("--quick", action="store_true", help="one round of 3 seconds: does it run, not how fast")
    parser.add_argument("--markdown", action="store_true", help="the table as it stands in the docs")
    parser.add_argument("--patience", type=float, default=30, help="seconds to wait for a quiet machine before a run")
    chosen = parser.parse_args(given)
    chosen.names = [name for named in chosen.names or ["speed"] for name in GROUPS.get(named, [named])]
    if unknown := set(chosen.names) - set(WORKLOADS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join([*GROUPS, *WORKLOADS])}")
    if chosen.quick:
        chosen.seconds, chosen.rounds, chosen.patience = 3, 1, 0
    return chosen


def plan(chosen: argparse.Namespace, cluster: Cluster) -> Plan:
    if chosen.quick:
        return Plan(cluster, chosen.seconds, 2 * chosen.seconds, 100_000, QUICK)
    long = max(60.0, chosen.seconds)
    return Plan(cluster, chosen.seconds, long, 200_000, Sizes(ready=chosen.ready))


def run(chosen: argparse.Namespace) -> tuple[dict[str, str], list[Result]]:
    facts = machine.facts()
    with throw_away() as cluster:
        facts["PostgreSQL"] = f"{cluster.version()}, {', '.join(f'{name}={value}' for name, value in SETTINGS.items())}"
        planned = plan(chosen, cluster)
        contests = [contest.only(chosen.only or "") for name in chosen.names for contest in WORKLOADS[name](planned)]
        for design in DESIGNS:
            design.prepare(cluster)
        others = machine.Others(cluster.postmaster)
        results = [play(contest, chosen.rounds, others, chosen.patience) for contest in contests if contest]
    return facts, results


def main() -> None:
    if sys.argv[1:2] == ["peers"]:
        compare(sys.argv[2:])
    elif sys.argv[1:2] == ["cost"]:
        cost(sys.argv[2:])
    elif sys.argv[1:2] == ["scale"]:
        scale(sys.argv[2:])
    elif sys.argv[1:2] == ["spark"]:
        # Its libraries are needed by nothing else.
        from .spark.command import main as pipeline

        pipeline(sys.argv[2:])
    else:
        contests()


def contests() -> None:
    chosen = arguments(sys.argv[1:])
    facts, results = run(chosen)
    facts["runs"] = f"{chosen.rounds} rounds of {chosen.seconds:g} s"
    facts["command"] = shlex.join(["python", "-m", "verification.benchmarks", *sys.argv[1:]])
    bullet = "- " if chosen.markdown else ""
    print("\n".join(f"{bullet}{name}: {value}" for name, value in facts.items()), end="\n\n")
    print(table(results, markdown=chosen.markdown), end="\n\n")
    print(NOTES)


if __name__ == "__main__":
    main()
