from __future__ import annotations

import json
from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_pgqueue.lifecycle.breaker_close import breaker_close
from django_pgqueue.lifecycle.breaker_open import breaker_open
from django_pgqueue.lifecycle.breakers import BreakerState, breakers
from django_pgqueue.management.acting import ActingCommand, clock, errors_as_command_errors, seconds
from django_pgqueue.management.database import queue_database
from django_pgqueue.redaction import printable


class Command(ActingCommand):
    help = "Lists the breakers of handlers, and opens or closes one."

    def add_own(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=["list", "open", "close"])
        parser.add_argument("handler", nargs="?", help="the handler whose breaker is opened or closed")
        parser.add_argument("--channel", metavar="NAME", help="the channel, if there is a breaker for each channel")
        parser.add_argument("--queue", metavar="NAME", default="default", help="the queue of the channel")
        parser.add_argument(
            "--for",
            dest="seconds",
            type=seconds,
            metavar="SECONDS",
            help="open: one message tries after this time (default: after the pause of the breaker)",
        )

    def handle(self, *, action: str, handler: str | None, database: str | None, form: str, **given: Any) -> None:
        using = queue_database(database)
        if action == "list":
            with errors_as_command_errors(using):
                rows = breakers(using=using)
            self.stdout.write(breakers_as_json(rows) if form == "json" else breakers_as_text(rows))
            return
        if handler is None:
            raise CommandError("Name the handler.")
        if action == "close" and given["seconds"]:
            raise CommandError("--for is for open.")
        channel, queue = given["channel"], given["queue"]
        with errors_as_command_errors(using):
            if given["dry_run"]:
                require_breaker(handler, using)
            elif action == "open":
                until = clock(using) + given["seconds"] if given["seconds"] else None
                breaker_open(handler, channel=channel, queue=queue, until=until, using=using)
            else:
                breaker_close(handler, channel=channel, queue=queue, using=using)
        what = handler if channel is None else f"{handler} of {queue}/{channel}"
        word = f"would be {action}" if given["dry_run"] else f"is {action}"
        facts = {"action": action, "handler": handler, "channel": channel, "dry_run": given["dry_run"]}
        self.answer(form, f"The breaker of {what} {word}{'d' if action == 'close' else ''}.", facts)


def require_breaker(handler: str, using: str) -> None:
    """Raise CommandError if the handler has no breaker."""
    if handler not in {row.handler for row in breakers(using=using)}:
        raise CommandError(f"The handler {handler!r} has no breaker.")


def breakers_as_json(rows: list[BreakerState]) -> str:
    """Return the breakers as a JSON document."""
    return json.dumps({"version": 1, "breakers": [row.as_json() for row in rows]}, indent=2, default=str)


def breakers_as_text(rows: list[BreakerState]) -> str:
    """Return a line for each breaker."""
    return "\n".join(map(line_of, rows)) or "No handler has a breaker."


def line_of(row: BreakerState) -> str:
    """Return the state of a breaker as one line."""
    state = {
        "closed": "closed" if row.per == "handler" else "one for each channel",
        "open": f"open until {row.until:%Y-%m-%d %H:%M:%S %Z}" if row.until else "open",
        "trying": "open, one message at a time may try",
    }[row.state]
    return printable(f"{row.name()}: {state}, {row.waiting_text} waiting, opened {row.openings} time(s)")
