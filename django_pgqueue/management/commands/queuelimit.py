from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.lifecycle.limit_drop import limit_drop
from django_pgqueue.lifecycle.limit_set import limit_set
from django_pgqueue.management.acting import (
    FORGIVEN,
    ActingCommand,
    add_forgive,
    at_least_one,
    count_or_none,
    errors_as_command_errors,
    seconds_or_none,
)
from django_pgqueue.management.database import queue_database
from django_pgqueue.models import SharedLimit
from django_pgqueue.rates import parse_rate
from django_pgqueue.sql.call import call

NUMBERS = ("max_concurrency", "max_cost", "release_interval", "release_burst")
RATE = ("release_interval", "release_burst")
HANDLERS = """
SELECT h.handler FROM pgqueue_limit_handler AS h JOIN pgqueue_limit AS l ON l.id = h.limit_id
WHERE l.name = %s ORDER BY h.handler
"""


class Command(ActingCommand):
    help = "Sets a shared limit while workers run, or drops it. queuepause --limit pauses it."

    def add_own(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=["set", "drop"], help="set: create or change the limit; drop: delete it")
        parser.add_argument("name", help="the limit; set creates it if it does not exist")
        parser.add_argument(
            "--max-concurrency",
            type=count_or_none,
            metavar="N",
            help="messages that may be leased at the same time; none lifts it",
        )
        parser.add_argument(
            "--max-cost", type=count_or_none, metavar="N", help="the sum of the costs of leased messages; none lifts it"
        )
        parser.add_argument("--rate", help="tokens in a time, such as 10/m or '100/s burst 50'; none lifts it")
        parser.add_argument(
            "--release-interval",
            type=seconds_or_none,
            metavar="SECONDS",
            help="one token comes in this time; none lifts it",
        )
        parser.add_argument("--release-burst", type=at_least_one, metavar="N", help="tokens that may be saved up")
        add_forgive(parser)
        parser.add_argument(
            "--handler",
            action="append",
            dest="handlers",
            metavar="NAME",
            help="all messages of this handler have the limit; repeatable; replaces those of before; none: no handler",
        )

    def handle(self, *, action: str, name: str, database: str | None, form: str, dry_run: bool, **given: Any) -> None:
        using = queue_database(database)
        settings = given_settings(given)
        forgive: bool = given["forgive"]
        if action == "set" and not settings and not forgive:
            raise CommandError("Name at least one setting, such as --max-concurrency 5.")
        if action == "drop" and (settings or forgive):
            raise CommandError("drop takes no settings.")
        facts: dict[str, Any] = {"action": action, "limit": name, "dry_run": dry_run}
        there = SharedLimit.objects.using(using).filter(name=name)
        if action == "drop" and not there.exists():
            raise CommandError(f"There is no limit {name!r}.")
        with errors_as_command_errors(using):
            if action == "drop":
                text = f"{name} {'would be' if dry_run else 'is'} dropped."
                if not dry_run:
                    limit_drop(name, using=using)
            else:
                before = before_of(name, settings, using)
                changes = [
                    f"{what} {limit_setting_text(before[what]) if before else '-'} → {limit_setting_text(value)}"
                    for what, value in settings.items()
                ]
                text = f"{name}: " + ", ".join(changes + FORGIVEN * forgive)
                facts |= {"before": before, "after": settings} | ({"forgive": True} if forgive else {})
                if not dry_run:
                    limit_set(name, forgive=forgive, using=using, **settings)
        self.answer(form, text, facts)


def given_settings(given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that the options give. Raises CommandError."""
    if given["rate"] is not None:
        if any(given[what] is not None for what in RATE):
            raise CommandError("--rate replaces --release-interval and --release-burst: give --rate, or those two.")
        try:
            found = ("none", 1) if given["rate"] == "none" else parse_rate(given["rate"])
        except InvalidMessage as error:
            raise CommandError(str(error)) from None
        given |= zip(RATE, found, strict=True)
    settings = {what: None if given[what] == "none" else given[what] for what in NUMBERS if given[what] is not None}
    if given["handlers"] is not None:
        settings["handlers"] = sorted({name for name in given["handlers"] if name != "none"})
    return settings


def before_of(name: str, settings: dict[str, Any], using: str) -> dict[str, Any] | None:
    """Return the present values of these settings; None if there is no such limit."""
    row = SharedLimit.objects.using(using).filter(name=name).values(*NUMBERS).first()
    if row is None:
        return None
    handlers = [handler for (handler,) in call(using, HANDLERS, (name,))]
    return {what: handlers if what == "handlers" else row[what] for what in settings}


def limit_setting_text(value: Any) -> str:
    """Return a setting as text: the names of a list with commas."""
    return (", ".join(value) or "none") if isinstance(value, list) else str(value)
