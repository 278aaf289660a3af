"""Print what 4, 16 and 64 cores would carry, by a model of measured costs; with --measure, measure them anew."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from verification.benchmarks import machine
from verification.benchmarks.cluster import throw_away

from .model import Machine, Step, limits, serial

INPUTS = Path(__file__).parent / "inputs.json"
CORES = (2, 4, 16, 64)


def arguments(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m verification.benchmarks scale", description=__doc__)
    parser.add_argument("--measure", action="store_true", help="measure the costs on this machine; it needs two cores")
    parser.add_argument("--seconds", type=float, default=10, help="the window of one run (%(default)s)")
    parser.add_argument(
        "--inputs", type=Path, default=INPUTS, help="where the costs are kept (default: in the project)"
    )
    return parser.parse_args(given)


def main(given: list[str]) -> None:
    chosen = arguments(given)
    if chosen.measure:
        chosen.inputs.write_text(json.dumps(_measured(chosen.seconds), indent=2) + "\n")
    facts, steps, disk = read(chosen.inputs)
    print("\n".join(f"- {name}: {value}" for name, value in facts.items()), end="\n\n")
    print("\n\n".join(tables(steps, disk)))


def tables(steps: tuple[Step, ...], disk: Machine) -> list[str]:
    """Return the tables of the page: the costs, the check, the limits by cores, and what no core changes."""
    return [inputs_table(steps), check_table(steps, disk), limits_table(steps, disk), serial_table(steps, disk)]


def _measured(seconds: float) -> dict[str, Any]:
    # They bring psycopg and a server, which the tables do not need.
    from .measure import disk, steps

    facts = machine.facts()
    written = disk()
    with throw_away() as cluster:
        facts["PostgreSQL"] = cluster.version()
        others = machine.Others(cluster.postmaster)
        others.start()
        measured = steps(cluster, seconds)
        facts["others' cores"] = f"{others.cores():.2f}"
    return {"facts": facts, "disk": asdict(written), "steps": [asdict(step) for step in measured]}


def read(path: Path) -> tuple[dict[str, str], tuple[Step, ...], Machine]:
    """Return the machine, the steps and the disk that were measured."""
    kept = json.loads(path.read_text())
    return kept["facts"], tuple(Step(**step) for step in kept["steps"]), Machine(**kept["disk"])


def inputs_table(steps: tuple[Step, ...]) -> str:
    rows = [f"| {s.name} | {s.server:,.0f} µs | {s.client:,.0f} µs | {s.wal:,.0f} B | {s.records:.1f} |" for s in steps]
    head = "| Step | Server's CPU per message | Client's CPU | WAL | WAL records |"
    return "\n".join([head, "|---|---|---|---|---|", *rows])


def check_table(steps: tuple[Step, ...], disk: Machine) -> str:
    rows = []
    for s in steps:
        cells = [s.name]
        for model, measured in ((s.predicted_pinned(disk), s.pinned), (s.predicted_both(disk), s.both)):
            cells += [f"{model:,.0f}/s", f"{measured:,.0f}/s", f"{measured / model:.2f}"]
        rows.append(f"| {' | '.join(cells)} |")
    head = "| Step | A core each: model | measured | ratio | Both on both: model | measured | ratio |"
    return "\n".join([head, "|---|---|---|---|---|---|---|", *rows])


def limits_table(steps: tuple[Step, ...], disk: Machine) -> str:
    enqueue, single, batch = steps
    rows = []
    for name, way in (("one a call", (enqueue, single)), ("50 a call", (enqueue, batch))):
        for cores in CORES:
            found = limits(way, disk, cores)
            first = min(found, key=lambda limit: limit.rate)
            rates = " | ".join(f"{limit.rate:,.0f}" for limit in found)
            rows.append(f"| {name} | {cores} | {rates} | **{first.rate:,.0f}**, {first.name} |")
    head = "| Dequeue and complete | Cores | CPU | commits | WAL writes | WAL places | First limit, messages/s |"
    return "\n".join([head, "|---|---|---|---|---|---|---|", *rows])


def serial_table(steps: tuple[Step, ...], disk: Machine) -> str:
    """Return what no number of cores changes: one session at a time does it, until its commit is on disk."""
    enqueue, single, batch = steps
    rows = [
        ("each enqueue notifies (`NOTIFY = \"always\"`, or a worker that sleeps)", 1, enqueue.server),
        ("a queue with a limit of its own, one message a call", 1, single.server),
        ("a queue with a limit of its own, 50 a call", 50, 50 * batch.server),
    ]  # fmt: skip
    lines = [f"| {name} | {serial(call, spent / 1e6, disk):,.0f} |" for name, call, spent in rows]
    return "\n".join(["| One at a time | Messages/s at most |", "|---|---|", *lines])
