"""Move the waiting jobs of another queue here, and plan the move of a Celery app."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from typing import Any

from django.apps import apps
from django.core.management.base import CommandError
from django.utils.module_loading import import_string

from django_pgqueue import handlers
from django_pgqueue.exceptions import PgQueueError
from django_pgqueue.importing import celery
from django_pgqueue.importing.move import Moved, Plan, left, move_batch
from django_pgqueue.importing.procrastinate import PROCRASTINATE
from django_pgqueue.importing.source import ImportSource
from django_pgqueue.importing.tasks_db import TASKS_DB
from django_pgqueue.management.cli.options import option
from django_pgqueue.management.cli.verbs import VerbRun, verb
from django_pgqueue.redaction import printable

PERIODIC_TASK = ("django_celery_beat", "PeriodicTask")


def pair(text: str) -> tuple[str, str]:
    """Return the two names of ``OLD=NEW``. Raises ArgumentTypeError."""
    old, equals, new = text.partition("=")
    if not (old and equals and new):
        raise ArgumentTypeError(f"{text!r} is not OLD=NEW")
    return old, new


def import_jobs(source: ImportSource, run: VerbRun) -> None:
    given, using = run.given, run.using
    handlers.autodiscover()
    plan = Plan(dict(given.handler), dict(given.queue), given.channel, given.unknown, given.stuck)
    if not source.is_there(using):
        raise CommandError(
            f"There is no table {source.table} in the database {using!r}. It must be in the queue's database: "
            "otherwise a job could be moved twice, or get lost."
        )
    jobs, moved = source.look(using), Moved()
    try:
        names = {job.name for job in jobs if plan.takes(job.name)}
        while not run.dry_run and (batch := move_batch(source, plan, names, using)):
            moved += batch
    except PgQueueError as error:
        raise CommandError(f"{printable(str(error))}\n{moved.created} moved before that.") from error
    lines = []
    for job in jobs:
        fate = f"-> {plan.handler(job.name)}" if plan.takes(job.name) else "stays: no handler has this name"
        lines.append(printable(f"{job.waiting:>8} waiting {job.running:>6} running  {job.queue}: {job.name} {fate}"))
    if any(job.running for job in jobs) and not plan.stuck:
        lines.append(
            "Running jobs stay with their workers. When all workers are stopped, --stuck moves those of dead ones."
        )
    staying = left(jobs, plan)
    if staying:
        lines.append("Write the handlers, give --handler OLD=NEW, or move all jobs with --unknown.")
    wanted = sum(job.waiting + job.running * plan.stuck for job in jobs if plan.takes(job.name))
    done = f"{moved.created} moved, {moved.duplicates} duplicates, {staying} stay"
    lines.append(f"{wanted} would be moved, {staying} would stay" if run.dry_run else done)
    tasks = [
        {
            "task": job.name, "queue": job.queue, "waiting": job.waiting, "running": job.running,
            "handler": plan.handler(job.name), "moves": plan.takes(job.name),
        }
        for job in jobs
    ]  # fmt: skip
    run.show(lines, moved=moved.created, duplicates=moved.duplicates, left=staying, tasks=tasks)


for source in (PROCRASTINATE, TASKS_DB):
    verb(
        f"import {source.name}", "Move the waiting jobs of its table into messages, each once. Stop its workers first.",
        "--dry-run",
        option("--handler", action="append", type=pair, default=[], metavar="OLD=NEW", help="the handler for a task"),
        option("--queue", action="append", type=pair, default=[], metavar="OLD=NEW", help="the new name of a queue"),
        option("--channel", default="default", metavar="NAME", help="for jobs without a lock (default: default)"),
        option("--unknown", action="store_true", help="also jobs for which the project has no handler"),
        option("--stuck", action="store_true", help="also jobs that run according to the table: their worker died"),
        changes=True,
    )(partial(import_jobs, source))  # fmt: skip


@verb(
    "plan celery", "Print the handler or schedule for each task and schedule of a Celery app. It changes nothing.",
    "--app mysite.celery.app",
    option("--app", metavar="MODULE.NAME", help="the Celery app (default: Celery's current one)"), database="none",
)  # fmt: skip
def plan_celery(run: VerbRun) -> None:
    try:
        found = import_string(run.given.app or "celery.current_app")
    except ImportError as error:
        raise CommandError(f"No Celery app was found: {error}. Name it with --app mysite.celery.app") from error
    # Celery imports and binds tasks late, as a worker does.
    found.loader.import_default_modules()
    found.finalize()
    rows: Iterable[Any] = []
    if apps.is_installed("django_celery_beat"):
        rows = apps.get_model(*PERIODIC_TASK)._default_manager.order_by("name")
    plan = {"tasks": list(celery.tasks(found)), "schedules": list(celery.celery_schedules(found, rows))}
    lines = []
    for kind, ports in plan.items():
        lines.append(f"{len(ports)} {kind}")
        for port in ports:
            lines += [f"\n{port.name}", f"    {port.becomes or 'nothing here corresponds to it'}"]
            lines += [f"    - {note}" for note in port.notes]
        lines.append("")
    run.show(lines, **{kind: [asdict(port) for port in ports] for kind, ports in plan.items()})
