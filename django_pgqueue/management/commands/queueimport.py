from __future__ import annotations

import json
from argparse import ArgumentTypeError
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from django_pgqueue import handlers
from django_pgqueue.exceptions import PgQueueError
from django_pgqueue.importing.move import Moved, Plan, left, move_batch
from django_pgqueue.importing.procrastinate import PROCRASTINATE
from django_pgqueue.importing.source import ImportSource, JobCounts
from django_pgqueue.importing.tasks_db import TASKS_DB
from django_pgqueue.management.database import queue_database
from django_pgqueue.redaction import printable
from django_pgqueue.sql.call import primary

SOURCES = {source.name: source for source in (PROCRASTINATE, TASKS_DB)}


def pair(text: str) -> tuple[str, str]:
    """Return the two names of ``OLD=NEW``. Raises ArgumentTypeError."""
    old, equals, new = text.partition("=")
    if not (old and equals and new):
        raise ArgumentTypeError(f"{text!r} is not OLD=NEW")
    return old, new


class Command(BaseCommand):
    help = (
        "Moves the waiting jobs of another queue, whose tables are in this database, into messages, each once. "
        "Stop the workers of that queue first."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("source", choices=list(SOURCES), help="the queue that the jobs are in")
        parser.add_argument("--dry-run", action="store_true", help="only print what would be moved")
        parser.add_argument(
            "--handler", action="append", type=pair, default=[], metavar="OLD=NEW", help="the handler for a task"
        )
        parser.add_argument(
            "--queue", action="append", type=pair, default=[], metavar="OLD=NEW", help="the new name of a queue"
        )
        parser.add_argument("--channel", default="default", help="for jobs without a lock (default: default)")
        parser.add_argument("--unknown", action="store_true", help="also jobs for which the project has no handler")
        parser.add_argument(
            "--stuck", action="store_true", help="also jobs that the table shows as running, because their worker died"
        )
        parser.add_argument("--format", dest="form", choices=["text", "json"], default="text")
        parser.add_argument("--database", help="alias of the queue's database (default: as enqueue does)")

    def handle(
        self, *, source: str, dry_run: bool, channel: str, unknown: bool, stuck: bool, form: str,
        database: str | None, **given: Any,
    ) -> None:  # fmt: skip
        using = queue_database(database)
        handlers.autodiscover()
        plan = Plan(dict(given["handler"]), dict(given["queue"]), channel, unknown, stuck)
        try:
            jobs = self._look(SOURCES[source], using)
            moved = Moved() if dry_run else self._move(SOURCES[source], plan, jobs, using)
        except DatabaseError as error:
            raise CommandError(f"The database {using!r} refuses: {primary(error)}") from error
        self._tell(jobs, moved, plan, form, dry_run=dry_run)

    def _look(self, source: ImportSource, using: str) -> list[JobCounts]:
        if not source.is_there(using):
            raise CommandError(
                f"There is no table {source.table} in the database {using!r}. It must be in the queue's database: "
                "otherwise a job could be moved twice, or get lost."
            )
        return source.look(using)

    def _move(self, source: ImportSource, plan: Plan, jobs: list[JobCounts], using: str) -> Moved:
        names = {job.name for job in jobs if plan.takes(job.name)}
        moved = Moved()
        try:
            while batch := move_batch(source, plan, names, using):
                moved += batch
        except PgQueueError as error:
            raise CommandError(f"{printable(str(error))}\n{moved.created} moved before that.") from error
        return moved

    def _tell(self, jobs: list[JobCounts], moved: Moved, plan: Plan, form: str, *, dry_run: bool) -> None:
        staying = left(jobs, plan)
        if form == "json":
            rows = [
                {
                    "task": job.name, "queue": job.queue, "waiting": job.waiting, "running": job.running,
                    "handler": plan.handler(job.name), "moves": plan.takes(job.name),
                }
                for job in jobs
            ]  # fmt: skip
            answer = {"dry_run": dry_run, "moved": moved.created, "duplicates": moved.duplicates, "left": staying}
            self.stdout.write(json.dumps({**answer, "tasks": rows}))
            return
        for job in jobs:
            fate = f"-> {plan.handler(job.name)}" if plan.takes(job.name) else "stays: no handler has this name"
            line = f"{job.waiting:>8} waiting {job.running:>6} running  {job.queue}: {job.name} {fate}"
            self.stdout.write(printable(line))
        if any(job.running for job in jobs) and not plan.stuck:
            self.stdout.write(
                "Running jobs stay with their workers. When all workers are stopped, --stuck moves those of dead ones."
            )
        if staying:
            self.stdout.write("Write the handlers, give --handler OLD=NEW, or move all jobs with --unknown.")
        if dry_run:
            wanted = [job for job in jobs if plan.takes(job.name)]
            count = sum(job.waiting + (job.running if plan.stuck else 0) for job in wanted)
            self.stdout.write(f"{count} would be moved, {staying} would stay")
        else:
            self.stdout.write(f"{moved.created} moved, {moved.duplicates} duplicates, {staying} stay")
