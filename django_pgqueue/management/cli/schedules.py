"""Set, run, switch and drop schedules."""

from __future__ import annotations

from argparse import BooleanOptionalAction
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError

import django_pgqueue as pgqueue
from django_pgqueue import codecs, handlers
from django_pgqueue.management.cli.options import (
    NAME,
    duration,
    duration_or_zero,
    headers,
    one_of,
    payload,
    positive,
    setting,
)
from django_pgqueue.management.cli.settings import value_text
from django_pgqueue.management.cli.verbs import VerbRun, verb
from django_pgqueue.management.database import clock
from django_pgqueue.models import Channel, Schedule
from django_pgqueue.outcomes import KEEP

# These are set and not printed: they may hold data that a terminal should not show.
CONTENT = ("payload", "headers")
PLAN = (
    "handler", "cron", "every", "time_zone", "queue", "channel", *CONTENT, "priority", "missed", "missed_limit",
    "grace", "overlap",
)  # fmt: skip


@verb(
    "set schedule", "Create a schedule, or change the settings that are given.",
    "nightly --handler report.make --cron '30 2 * * *'", NAME,
    one_of(
        setting("--cron", metavar="EXPRESSION", help="such as '30 2 * * *' or @daily"),
        setting("--every", type=duration, metavar="DURATION", help="in place of a cron expression"),
    ),
    setting("--time-zone", metavar="NAME", help="the zone whose wall clock the cron expression follows"),
    setting("--handler", metavar="NAME", help="the handler of its messages"),
    setting("--queue", metavar="NAME", help="the queue of its messages"),
    setting("--channel", metavar="NAME", help="the channel of its messages; it must exist"),
    setting("--payload", type=payload, metavar="JSON", help="the payload of its messages"),
    setting("--headers", type=headers, metavar="JSON", help="the headers of its messages"),
    setting("--priority", type=int, metavar="N", help="higher first, within the channel"),
    setting("--missed", choices=Schedule.Missed.values, help="what happens to missed ticks"),
    setting("--missed-limit", type=positive, metavar="N", help="the most missed ticks that fire later"),
    setting("--grace", type=duration_or_zero, metavar="DURATION", help="a tick that is late by less is not missed"),
    setting("--overlap", action=BooleanOptionalAction,
            help="--no-overlap: no message while that of an earlier tick is live"),
    changes=True,
)  # fmt: skip
def set_schedule(run: VerbRun) -> None:
    """Create or change the schedule. Only the named columns are written, so that concurrent changes are kept."""
    name, given = run.given.name, vars(run.given)
    plan = {key: given[key] for key in PLAN if given[key] is not KEEP}
    if not plan:
        raise CommandError("Name at least one option to set, such as --cron; --help lists them.")
    if "cron" in plan or "every" in plan:
        plan = {"cron": None, "every": None, **plan}
    row = run.rows()
    found: Schedule | None = row.first()
    if found and found.declared_in:
        raise CommandError(
            f"{found.declared_in} declares {name!r}: change it there, or disable it and set another one."
        )
    schedule = found or Schedule(name=name)
    before = {key: getattr(schedule, key) for key in plan} if found else None
    for key, value in plan.items():
        setattr(schedule, key, value)
    check_schedule(schedule, plan, run.using, is_new=found is None)
    if not run.dry_run:
        if found:
            schedule.seal(run.using)
            row.update(**plan | {"payload": schedule.payload} if codecs.current() else plan)
        else:
            schedule.save(using=run.using, force_insert=True)
    changed = [key for key in plan if key not in CONTENT and plan[key] != (before[key] if before else None)]
    replaced = [key for key in CONTENT if key in plan]
    changes = [f"{key} {value_text(before[key]) if before else '-'} → {value_text(plan[key])}" for key in changed]
    text = ", ".join([*changes, *(f"another {key}" for key in replaced)]) or "as it was"
    was = before and {key: before[key] for key in changed}
    facts = {"created": found is None, "replaced": replaced, "next": schedule.timetable.after(clock(run.using))}
    after = {key: plan[key] for key in changed}
    run.answer(f"{run.subject}: {text}", **run.names, **facts, before=was, after=after)


def check_schedule(schedule: Schedule, plan: dict[str, Any], using: str, *, is_new: bool) -> None:
    """Raise CommandError for a definition that would fail at its ticks, as the admin does."""
    try:
        schedule.clean_fields()
        schedule.clean()
    except ValidationError as error:
        problems = [f"{field}: {text}" for field, texts in error.message_dict.items() for text in texts]
        raise CommandError("; ".join(problems)) from error
    if "handler" in plan and handlers.find(schedule.handler) is None:
        known = ", ".join(handlers.names()) or "none"
        raise CommandError(f"No handler is called {schedule.handler!r}. The registered handlers are: {known}.")
    if is_new or {"queue", "channel"} & set(plan):
        open_channels = Channel.objects.using(using).filter(released_at=None)
        if not open_channels.filter(queue=schedule.queue, name=schedule.channel).exists():
            raise CommandError(f"The queue {schedule.queue!r} has no open channel {schedule.channel!r}.")


@verb("run schedule", "Enqueue the message of a schedule now, also if it is disabled.", "nightly", NAME, changes=True)
def run_schedule(run: VerbRun) -> None:
    run.require()
    if run.dry_run:
        run.done("run")
        return
    answer = pgqueue.schedule_run(run.given.name, using=run.using)
    text = f"{run.subject}: {answer.outcome}" + (f", message {answer.id}" if answer.id else "")
    run.answer(text, **run.names, outcome=answer.outcome, message=answer.id)
    if answer.outcome != "created":
        raise CommandError("The run created no message: see the outcome above.")


@verb("enable schedule", "Switch a schedule on.", "nightly", NAME, changes=True)
@verb("disable schedule", "Switch a schedule off.", "nightly", NAME, changes=True)
def switch_schedule(run: VerbRun) -> None:
    rows = run.require()
    if not run.dry_run:
        rows.update(enabled=run.action == "enable")
    run.done(f"{run.action}d")
