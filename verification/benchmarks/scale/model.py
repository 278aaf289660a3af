"""Compute from the measured cost of a message what more cores would carry: each limit by itself, and the first one."""

from __future__ import annotations

from dataclasses import dataclass

BUSY = 0.9  # of the cores: the rest is for autovacuum, checkpoints and the kernel
SESSIONS_PER_CORE = 4
CLIENTS = 8  # of a measurement
# Assumed, not measured: PostgreSQL hands out places in the WAL one record after the other, under a spinlock.
RESERVE_SECONDS = 100e-9


@dataclass(frozen=True, slots=True)
class Step:
    """The measured cost of one message in one step.

    server, client  µs of CPU
    wal, records    bytes and records of WAL
    call            messages of one call, which is one commit for an enqueue, and two for a dequeue with its completion
    commits         commits of one call
    pinned, both    messages a second with the server on one core and the clients on the other, and with both on both
    """

    name: str
    server: float
    client: float
    wal: float
    records: float
    call: int
    commits: int
    pinned: float
    both: float

    def predicted_pinned(self, machine: Machine) -> float:
        """Return messages a second when each side has a core of its own: the slower one ends it, or the disk."""
        return min(1e6 / max(self.server, self.client), self.by_commits(machine, CLIENTS))

    def predicted_both(self, machine: Machine) -> float:
        """Return messages a second when both sides share two cores."""
        return min(2e6 / (self.server + self.client), self.by_commits(machine, CLIENTS))

    def by_commits(self, machine: Machine, sessions: float) -> float:
        """Return messages a second when sessions do nothing but wait: for the flush under way, and for their own."""
        return sessions / (2 * machine.sync) * self.call / self.commits


@dataclass(frozen=True, slots=True)
class Machine:
    """The measured disk: seconds that a sync of 8 kB takes, and bytes a second of large writes with a sync each."""

    sync: float
    write: float


@dataclass(frozen=True, slots=True)
class Limit:
    name: str
    rate: float


def limits(steps: tuple[Step, ...], machine: Machine, cores: int) -> list[Limit]:
    """Return the messages a second at which each resource ends, for messages that go through all of the steps."""
    cpu = sum(step.server + step.client for step in steps) / 1e6
    wal, records = sum(step.wal for step in steps), sum(step.records for step in steps)
    waits = sum(1 / step.by_commits(machine, SESSIONS_PER_CORE * cores) for step in steps)
    return [
        Limit("CPU", BUSY * cores / cpu),
        Limit("commits", 1 / waits),
        Limit("WAL writes", machine.write / wal),
        Limit("WAL places", 1 / (records * RESERVE_SECONDS)),
    ]


def serial(calls_of: int, seconds_of_call: float, machine: Machine) -> float:
    """Return messages a second of a step that one session at a time may do, until its commit is on disk."""
    return calls_of / (seconds_of_call + machine.sync)
