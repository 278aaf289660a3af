"""Queues outside of PostgreSQL: their programs count what is enqueued and done, and the benchmark adds it up."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import psycopg

from verification.benchmarks.design import HERE, Design


@dataclass(frozen=True, slots=True)
class Counted(Design):
    """A design without a schema. `counts` is the folder with a file for each process and event (`common.count`)."""

    counts: Path = Path()

    def run_script(self, connection: psycopg.Connection, name: str, **parameters: int) -> psycopg.Cursor:
        """Answer the scripts `progress` and `dead` with the counts, at the time of the server as all designs do."""
        if name == "progress":
            numbers = [total(self.counts, event) for event in ("enqueued", "completed")]
            return connection.execute(
                "SELECT extract(epoch FROM clock_timestamp())::float8, %s::bigint, %s::bigint", numbers
            )
        assert name == "dead", f"{self.name} has no script {name}"
        return connection.execute("SELECT %s::bigint", [total(self.counts, "dead")])


def counted(name: str, counts: Path) -> Counted:
    return Counted(name, HERE / "scripts" / "none", lambda cluster, database: None, counts=counts)


def total(counts: Path, event: str) -> int:
    """Return how often an event happened in all processes."""
    return sum(int.from_bytes(file.read_bytes(), "little") for file in counts.glob(f"{event}-*"))
