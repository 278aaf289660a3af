"""Describe the table of another queue, and its jobs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django_pgqueue.delivery import NewMessage
from django_pgqueue.sql.call import call

LOWEST_PRIORITY, HIGHEST_PRIORITY = -32767, 32767


@dataclass(frozen=True, slots=True)
class Job:
    """Hold a job as its table has it. ``lock``: a text; of the jobs with the same one, one runs at a time."""

    id: str
    name: str
    queue: str
    payload: Any
    priority: int
    due_at: datetime | None
    lock: str | None
    dedupe_key: str | None


@dataclass(frozen=True, slots=True)
class JobCounts:
    """Count the jobs of a name in a queue: those that wait, and those that run or whose worker died."""

    name: str
    queue: str
    waiting: int
    running: int


@dataclass(frozen=True, slots=True)
class ImportSource:
    """Hold the statements for one queue.

    ``count`` takes nothing and returns name, queue, waiting, running. ``take`` takes the states, the names and a
    number; it locks as many jobs and returns the columns of :class:`Job`, payload and due_at as text. ``settle`` takes
    ids, so that the old queue no longer runs these jobs.
    """

    name: str
    table: str
    header: str
    waiting: str
    running: str
    count: str
    take: str
    settle: str

    def is_there(self, using: str) -> bool:
        """Return whether the table exists."""
        there: bool = call(using, "SELECT to_regclass(%s) IS NOT NULL", (self.table,))[0][0]
        return there

    def look(self, using: str) -> list[JobCounts]:
        """Return the counts of jobs."""
        return [JobCounts(*row) for row in call(using, self.count)]

    def lock(self, names: Sequence[str], limit: int, using: str, *, stuck: bool) -> list[Job]:
        """Lock up to ``limit`` waiting jobs, in the order in which they would run; with ``stuck``, running ones too.

        Jobs that another transaction has locked are left out: a worker or another import takes them at this moment.
        """
        states = [self.waiting, self.running] if stuck else [self.waiting]
        rows = call(using, self.take, (states, list(names), limit))
        return [
            Job(
                number, name, queue, json.loads(payload), priority, due_at and datetime.fromisoformat(due_at), lock, key
            )
            for number, name, queue, payload, priority, due_at, lock, key in rows
        ]

    def close(self, jobs: Sequence[Job], using: str) -> None:
        """Settle the jobs in the old table."""
        call(using, self.settle, ([job.id for job in jobs],))

    def message(self, job: Job, handlers: Mapping[str, str], queues: Mapping[str, str], channel: str) -> NewMessage:
        """Return the message for a job. ``handlers``, ``queues``: new names by old ones; others stay."""
        return NewMessage(
            handler=handlers.get(job.name, job.name),
            payload=job.payload,
            queue=queues.get(job.queue, job.queue),
            channel=job.lock or channel,
            priority=min(max(job.priority, LOWEST_PRIORITY), HIGHEST_PRIORITY),
            dequeue_at=job.due_at,
            dedupe_key=job.dedupe_key,
            headers={self.header: job.id},
        )
