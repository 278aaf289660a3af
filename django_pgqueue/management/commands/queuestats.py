from __future__ import annotations

import argparse
import json
import time
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error

from django_pgqueue.lifecycle.health import QueueHealth, health
from django_pgqueue.lifecycle.queue_names import queue_names
from django_pgqueue.lifecycle.traffic import traffic
from django_pgqueue.management.database import queue_database
from django_pgqueue.redaction import printable
from django_pgqueue.sql.call import primary

EVERY_SECONDS = 2.0
CLEAR = "\x1b[H\x1b[2J"
HEAD = ("queue", "ready", "leased", "scheduled", "limited", "keyed", "dead", "oldest", "workers", "")


def interval(text: str) -> float:
    """Return a number of seconds from 0.1 to 3,600. Raises ArgumentTypeError."""
    seconds = float(text)
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text} is not between 0.1 and 3600")
    return seconds


class Command(BaseCommand):
    help = "Shows each queue's messages by state, how long the oldest waits, and the messages enqueued and settled."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--watch",
            nargs="?",
            type=interval,
            const=EVERY_SECONDS,
            metavar="SECONDS",
            help="repeat after so many seconds (default: 2)",
        )
        parser.add_argument("--times", type=int, metavar="N", help="with --watch: stop after this many times")
        parser.add_argument("--queue", metavar="NAME", help="only this queue")
        parser.add_argument(
            "--format", dest="form", choices=["text", "json"], default="text", help="json: a line each time"
        )
        parser.add_argument("--database", help="alias of the queue's database (default: as enqueue does)")

    def handle(
        self, *, watch: float | None, times: int | None, queue: str | None, form: str, database: str | None, **_: Any
    ) -> None:
        using = queue_database(database)
        left = 1 if watch is None else times
        before = None
        try:
            while left is None or left > 0:
                rows, now = health(queue, using=using), traffic(using=using)
                if queue is not None and not rows:
                    raise unknown_queue(queue, using)
                self._show(rows, now.since(before) if before else None, form, clear=watch is not None)
                before, left = now, None if left is None else left - 1
                if left != 0:
                    time.sleep(watch or 0)
        except KeyboardInterrupt:
            return
        except Error as error:
            raise CommandError(f"The database {using!r} refuses: {primary(error)}") from error

    def _show(self, rows: list[QueueHealth], rates: dict[str, float] | None, form: str, *, clear: bool) -> None:
        if form == "json":
            self.stdout.write(stats_as_json(rows, rates))
        else:
            is_terminal = clear and self.stdout.isatty()
            self.stdout.write((CLEAR if is_terminal else "") + stats_as_text(rows, rates))
        self.stdout.flush()


def unknown_queue(name: str, using: str) -> CommandError:
    """Return the error for a queue that has no channel."""
    known = ", ".join(map(printable, queue_names(using=using))) or "none"
    return CommandError(f"There is no queue {printable(name)!r}. Queues: {known}.")


def stats_as_json(rows: list[QueueHealth], rates: dict[str, float] | None) -> str:
    """Return the figures as JSON in one line."""
    return json.dumps({"version": 1, "queues": [row.as_json() for row in rows], "per_second": rates})


def stats_as_text(rows: list[QueueHealth], rates: dict[str, float] | None) -> str:
    """Return the figures as a table."""
    table = [HEAD, *map(cells, rows)]
    widths = [max(len(line[place]) for line in table) for place in range(len(HEAD))]
    lines = [
        " ".join(
            cell.ljust(width) if place in (0, len(HEAD) - 1) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in table
    ]
    if rates is not None:
        lines.append("per second: " + ", ".join(f"{rate:.1f} {name}" for name, rate in rates.items()))
    return "\n".join(lines)


def cells(row: QueueHealth) -> tuple[str, ...]:
    """Return the texts of one queue's row in the table, one for each column of HEAD."""
    more = "" if row.complete else "+"
    waiting = row.scheduled, row.waiting_for_limit, row.waiting_for_order_key
    numbers = [f"{number}{more}" for number in (row.ready, row.leased, *waiting, row.dead)]
    oldest = "-" if row.oldest_age is None else str(timedelta(seconds=round(row.oldest_age.total_seconds())))
    return (printable(row.queue), *numbers, oldest, str(row.workers), "paused" if row.paused else "")
