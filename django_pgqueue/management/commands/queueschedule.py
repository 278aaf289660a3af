from __future__ import annotations

from argparse import ArgumentTypeError, BooleanOptionalAction
from datetime import timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser
from django.db.models import QuerySet

from django_pgqueue import codecs, handlers
from django_pgqueue.lifecycle.schedule_run import schedule_run
from django_pgqueue.management.acting import (
    ActingCommand,
    at_least_one,
    clock,
    errors_as_command_errors,
    headers,
    payload,
    seconds,
)
from django_pgqueue.management.database import queue_database
from django_pgqueue.models import Channel, Schedule
from django_pgqueue.outcomes import KEEP

# These are set and not printed: they may hold data that a terminal should not show.
CONTENT = ("payload", "headers")
PLAN = (
    "handler", "cron", "every", "time_zone", "queue", "channel", *CONTENT, "priority", "missed", "missed_limit",
    "grace", "overlap",
)  # fmt: skip


def not_negative(text: str) -> timedelta:
    """Return a number of seconds as a timedelta. Raises ArgumentTypeError if it is negative or above ten years."""
    value = float(text)
    if not 0 <= value <= 3660 * 86_400:
        raise ArgumentTypeError(f"{text} seconds are not between 0 and ten years")
    return timedelta(seconds=value)


class Command(ActingCommand):
    help = "Creates, changes or removes a schedule, runs it now, or switches it on or off."

    def add_own(self, parser: CommandParser) -> None:
        parser.add_argument(
            "action",
            choices=["set", "remove", "run", "enable", "disable"],
            help="set: create or change it; run: enqueue its message now",
        )
        parser.add_argument("name", help="the schedule; set creates it if it does not exist")
        when = parser.add_mutually_exclusive_group()
        when.add_argument("--cron", metavar="EXPRESSION", help="such as '30 2 * * *' or @daily")
        when.add_argument("--every", type=seconds, metavar="SECONDS", help="in place of a cron expression")
        parser.add_argument("--time-zone", metavar="NAME", help="the zone whose wall clock the cron expression follows")
        parser.add_argument("--handler", metavar="NAME", help="the handler of its messages")
        parser.add_argument("--queue", metavar="NAME", help="the queue of its messages")
        parser.add_argument("--channel", metavar="NAME", help="the channel of its messages; it must exist")
        parser.add_argument("--payload", type=payload, default=KEEP, metavar="JSON", help="the payload of its messages")
        parser.add_argument("--headers", type=headers, default=KEEP, metavar="JSON", help="the headers of its messages")
        parser.add_argument("--priority", type=int, metavar="N", help="higher first, within the channel")
        parser.add_argument("--missed", choices=Schedule.Missed.values, help="what happens to missed ticks")
        parser.add_argument(
            "--missed-limit", type=at_least_one, metavar="N", help="the most missed ticks that fire later"
        )
        parser.add_argument(
            "--grace", type=not_negative, metavar="SECONDS", help="a tick that is late by less is not missed"
        )
        parser.add_argument(
            "--overlap",
            action=BooleanOptionalAction,
            help="--no-overlap: no message while that of an earlier tick is live",
        )

    def handle(self, *, action: str, name: str, database: str | None, form: str, dry_run: bool, **given: Any) -> None:
        using = queue_database(database)
        plan = {key: given[key] for key in PLAN if given[key] is not (KEEP if key in CONTENT else None)}
        if action == "set" and not plan:
            raise CommandError("Name at least one option to set, such as --cron.")
        if action != "set" and plan:
            raise CommandError(f"{action} takes only the name, and no other options.")
        row = Schedule.objects.using(using).filter(name=name)
        facts: dict[str, Any] = {"action": action, "schedule": name, "dry_run": dry_run}
        with errors_as_command_errors(using):
            if action != "set" and not row.exists():
                raise CommandError(f"There is no schedule {name!r}.")
            if action == "set":
                text = self.set(row, name, plan, facts)
            elif dry_run:
                text = f"{name}: {action}, would be done"
            elif action == "run":
                answer = schedule_run(name, using=using)
                facts |= {"outcome": answer.outcome, "message": answer.id}
                text = f"{name}: {answer.outcome}" + (f", message {answer.id}" if answer.id else "")
            elif action == "remove":
                text = self.remove(row, name)
            else:
                row.update(enabled=action == "enable")
                text = f"{name}: {action}d"
        self.answer(form, text, facts)
        if action == "run" and not dry_run and facts["outcome"] != "created":
            raise CommandError("The run created no message: see the outcome above.")

    def set(self, row: QuerySet[Schedule], name: str, plan: dict[str, Any], facts: dict[str, Any]) -> str:
        """Create or change the schedule. Only the named columns are written, so that concurrent changes are kept.

        Raises CommandError for a schedule that code declares.
        """
        if "cron" in plan or "every" in plan:
            plan = {"cron": None, "every": None, **plan}
        found = row.first()
        if found and found.declared_in:
            raise CommandError(
                f"{found.declared_in} declares {name!r}: change it there, or disable it and set another one."
            )
        schedule = found or Schedule(name=name)
        before = {key: getattr(schedule, key) for key in plan} if found else None
        for key, value in plan.items():
            setattr(schedule, key, value)
        check_schedule(schedule, plan, row.db, is_new=found is None)
        if not facts["dry_run"]:
            if found:
                schedule.seal(row.db)
                row.update(**plan | {"payload": schedule.payload} if codecs.current() else plan)
            else:
                schedule.save(using=row.db, force_insert=True)
        changed = [key for key in plan if key not in CONTENT and plan[key] != (before[key] if before else None)]
        facts |= {
            "created": found is None,
            "before": before and {key: before[key] for key in changed},
            "after": {key: plan[key] for key in changed},
            "replaced": [key for key in CONTENT if key in plan],
            "next": schedule.timetable.after(clock(row.db)),
        }
        changes = [f"{key} {before[key] if before else '-'} → {plan[key]}" for key in changed]
        return f"{name}: " + (", ".join([*changes, *(f"another {key}" for key in facts["replaced"])]) or "as it was")

    def remove(self, row: QuerySet[Schedule], name: str) -> str:
        """Delete the schedule. Returns the text of the answer."""
        declared_in = row.values_list("declared_in", flat=True).get()
        row.delete()
        return f"{name}: removed" + (f"; a worker that has {declared_in} makes it again" if declared_in else "")


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
