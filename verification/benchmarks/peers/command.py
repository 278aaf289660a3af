"""Ours beside its peers: alternately, in the same run, on the same server, each with its own client."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from pathlib import Path

from verification.benchmarks import machine
from verification.benchmarks.cluster import SETTINGS, throw_away
from verification.benchmarks.contest import play
from verification.benchmarks.peers.environments import OurEnvironment

from .contests import WORKLOADS, Outcome, promises
from .environments import HOME
from .report import as_json, table
from .roster import NAMES, OURS, Peer, roster
from .workloads import Field, Scale

NOTES = """\
Each contestant enqueues, works and acknowledges with its own library. Handlers do nothing; payloads have about 100
bytes. What is done is counted in the database, or by the programs where the messages are in Redis or RabbitMQ.
Contestants take turns, and each run has a fresh database or broker; ratios are medians of the ratios of one round. Ours
archives, fences and keeps its limits; the others do as they come."""


def arguments(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m verification.benchmarks peers", description=__doc__)
    parser.add_argument("--workload", default=",".join(WORKLOADS), help="of %(default)s (default: all), with commas")
    parser.add_argument(
        "--peers", default=",".join(NAMES), help="of %(default)s (default: all); ours always takes part"
    )
    parser.add_argument("--messages", type=int, default=50_000, help="backlog of a drain; poison has a fifth of it")
    parser.add_argument("--seconds", type=float, default=10, help="window of sustained, latency and load")
    parser.add_argument("--cap", type=float, default=30, help="most seconds of a drain: the slow ones do not finish")
    parser.add_argument("--rate", type=float, default=200, help="messages per second of poison and load")
    parser.add_argument("--limit", type=float, default=180, help="seconds to wait for a redelivery")
    parser.add_argument("--rounds", type=int, default=3, help="how often the contestants take turns")
    parser.add_argument("--patience", type=float, default=30, help="seconds to wait for a quiet machine before a run")
    parser.add_argument("--json", type=Path, default=HOME / "report.json", help="default: %(default)s")
    parser.add_argument("--markdown", action="store_true", help="the table as it stands in the docs")
    parser.add_argument("--quick", action="store_true", help="a small round of each: does it run, not how fast")
    parser.add_argument("--install", action="store_true", help="install the peers, measure nothing")
    chosen = parser.parse_args(given)
    chosen.workload, chosen.peers = chosen.workload.split(","), chosen.peers.split(",")
    for what, names, valid in (("workload", chosen.workload, list(WORKLOADS)), ("peer", chosen.peers, list(NAMES))):
        if unknown := set(names) - set(valid):
            parser.error(f"unknown {what}: {', '.join(sorted(unknown))}; known: {', '.join(valid)}")
    if chosen.quick:
        chosen.messages, chosen.seconds, chosen.cap, chosen.rounds, chosen.patience = 5_000, 2, 5, 1, 0
    return chosen


def present(peers: list[Peer]) -> tuple[Peer, ...]:
    """Those that are installed or could be; the reason of each that is left out goes to stderr."""
    found = []
    for peer in peers:
        if reason := peer.missing():
            print(f"{peer.name} is left out: {reason}", file=sys.stderr)
            continue
        if not peer.environment.installed():
            print(f"installing {peer.name} …", file=sys.stderr, flush=True)
            assert not isinstance(peer.environment, OurEnvironment), "ours is always installed"
            peer.environment.install()
        found.append(peer)
    return tuple(found)


def run(chosen: argparse.Namespace, peers: tuple[Peer, ...], facts: dict[str, str]) -> list[Outcome]:
    """One workload after the other; the report is written after each, because all of it takes hours."""
    versions = {peer.name: peer.environment.version() for peer in peers}
    labels = {f"{peer.name}, {name}": found.label for peer in peers for name, found in peer.settings.items()}
    labels[f"{OURS}, child"] = "default, a child killed"
    outcomes = []
    with throw_away() as cluster:
        facts["PostgreSQL"] = f"{cluster.version()}, {', '.join(f'{name}={value}' for name, value in SETTINGS.items())}"
        facts |= {f"version of {name}": version for name, version in versions.items()}
        field = Field(
            cluster, peers, Scale(chosen.messages, chosen.seconds, chosen.cap, chosen.rate, patience=chosen.limit)
        )
        field.prepare(backlog=any(WORKLOADS[name].backlog for name in chosen.workload))
        others = machine.Others(cluster.postmaster)
        for name in chosen.workload:
            result = play(WORKLOADS[name].contest(field), chosen.rounds, others, chosen.patience)
            outcomes.append(Outcome(name, result, labels))
            chosen.json.parent.mkdir(parents=True, exist_ok=True)
            chosen.json.write_text(as_json(facts, versions, outcomes))
    return outcomes


def main(given: list[str]) -> None:
    chosen = arguments(given)
    peers = present([peer for peer in roster() if peer.name in (*chosen.peers, OURS)])
    if chosen.install:
        return
    # As Ctrl-C does: the workers and the server are ended, not left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    facts = machine.facts()
    facts["command"] = shlex.join(["python", "-m", "verification.benchmarks", "peers", *given])
    outcomes = run(chosen, peers, facts)
    bullet = "- " if chosen.markdown else ""
    print("\n".join(f"{bullet}{name}: {value}" for name, value in facts.items()), end="\n\n")
    print(table(outcomes, markdown=chosen.markdown), end="\n\n")
    print("\n".join(map(str, promises(outcomes))), end="\n\n")
    print(NOTES)
