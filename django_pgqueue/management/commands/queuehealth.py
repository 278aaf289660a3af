from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error

from django_pgqueue.lifecycle.breakers import BreakerState, breakers
from django_pgqueue.lifecycle.health import MOST_COUNTED_ROWS, QueueHealth, health
from django_pgqueue.lifecycle.held_channels import HeldChannel, held_channels
from django_pgqueue.lifecycle.limit_health import LimitHealth, limit_health
from django_pgqueue.limits import handler_of_limit
from django_pgqueue.management.database import database_error, queue_database
from django_pgqueue.redaction import printable
from django_pgqueue.sql.call import bounded_read

CRITICAL_STATUS, UNKNOWN_STATUS = 2, 3
STATEMENT_SECONDS = 30.0
SHOWN_BREAKERS = 5
LIMITS = ("max_age", "max_backlog", "max_dead", "max_limit_wait", "max_held", "max_open_breakers")


def seconds(text: str) -> timedelta:
    """Return a number of seconds as a timedelta. Raises ArgumentTypeError unless it is positive."""
    duration = timedelta(seconds=float(text))
    if duration <= timedelta(0):
        raise argparse.ArgumentTypeError(f"{text} is not more than zero")
    return duration


def count(text: str) -> int:
    """Return a whole number from 0 to 1,000,000. Raises ArgumentTypeError."""
    number = int(text)
    if not 0 <= number <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1,000,000")
    return number


class Command(BaseCommand):
    help = (
        "Reports in one line whether the queues keep up, for monitors. Without a limit it checks nothing. Exit status "
        "0: they do; 2: one does not; 3: the database does not answer, or there is no such queue."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--max-age", type=seconds, metavar="SECONDS", help="the longest time that a ready message may wait"
        )
        parser.add_argument(
            "--max-backlog", type=count, metavar="N", help="the most messages that may be ready in a queue"
        )
        parser.add_argument(
            "--max-dead", type=count, metavar="N", help="the most dead letters that may wait for a redrive"
        )
        parser.add_argument(
            "--max-limit-wait",
            type=seconds,
            metavar="SECONDS",
            help="the longest time that a message may wait for a shared limit, or in a queue at its limit",
        )
        parser.add_argument(
            "--max-held",
            type=seconds,
            metavar="SECONDS",
            help="the longest time that a failing message may hold an ordered channel",
        )
        parser.add_argument(
            "--max-open-breakers",
            type=count,
            metavar="N",
            help="the most breakers of handlers that may be open",
        )
        parser.add_argument("--queue", action="append", metavar="NAME", help="only this queue; may be repeated")
        parser.add_argument(
            "--format", dest="form", choices=["text", "json"], default="text", help="json: for programs"
        )
        parser.add_argument("--database", help="alias of the queue's database (default: as enqueue does)")

    def handle(self, *, queue: list[str] | None, form: str, database: str | None, **limits: Any) -> None:
        using = queue_database(database, status=UNKNOWN_STATUS)
        counts = [limits[name] + 1 for name in ("max_backlog", "max_dead") if limits[name] is not None]
        try:
            with bounded_read(using, seconds=STATEMENT_SECONDS):
                rows = health(most=max([MOST_COUNTED_ROWS, *counts]), using=using)
                shared, held = limit_health(using=using), held_channels(using=using)
                tripped = [breaker for breaker in breakers(using=using) if breaker.is_open]
        except Error as error:
            raise database_error(using, error, status=UNKNOWN_STATUS) from error
        if queue is not None:
            if missing := set(queue) - {row.queue for row in rows}:
                names = ", ".join(sorted(map(printable, missing)))
                raise CommandError(f"There is no queue {names}: no channel is in it.", returncode=UNKNOWN_STATUS)
            rows = [row for row in rows if row.queue in queue]
            shared = [limit for limit in shared if limit.kind == "shared" or limit.name in queue]
            held = [channel for channel in held if channel.queue in queue]
            tripped = [breaker for breaker in tripped if breaker.queue is None or breaker.queue in queue]
        problems = [problem for row in rows for problem in exceeded(row, **limits)]
        problems += [*waits_for_limits(shared, limits["max_limit_wait"]), *held_too_long(held, limits["max_held"])]
        problems += too_many_open(tripped, limits["max_open_breakers"])
        is_checked = any(limits[name] is not None for name in LIMITS)
        as_text = health_as_text(rows, tripped, problems, is_checked=is_checked)
        self.stdout.write(health_as_json(rows, shared, held, tripped, problems) if form == "json" else as_text)
        if problems:
            sys.exit(CRITICAL_STATUS)


def exceeded(
    row: QueueHealth, *, max_age: timedelta | None, max_backlog: int | None, max_dead: int | None, **options: Any
) -> Iterator[str]:
    """Yield a sentence for each limit that the queue exceeds."""
    queue, at_least = printable(row.queue), "" if row.complete else "at least "
    if max_age is not None and row.oldest_age is not None and row.oldest_age > max_age:
        channel = printable(row.oldest_channel or "")
        because = ", the queue is paused" if row.paused else "" if row.workers else ", no worker serves the queue"
        yield f"{queue}: a message of channel {channel} waits for {row.oldest_age.total_seconds():.0f} s{because}"
    if max_backlog is not None and row.ready > max_backlog:
        yield f"{queue}: {at_least}{row.ready} ready"
    if max_dead is not None and row.dead > max_dead:
        yield f"{queue}: {at_least}{row.dead} dead"


def waits_for_limits(rows: list[LimitHealth], longest: timedelta | None) -> Iterator[str]:
    """Yield a sentence for each limit for which a message waits longer than ``longest``; None: any wait is allowed."""
    for row in rows:
        if longest is not None and row.oldest_age is not None and row.oldest_age > longest:
            # The limit of a paused handler is called "handler" and its name.
            handler = row.kind == "shared" and handler_of_limit(row.name)
            kind = "" if handler else "limit " if row.kind == "shared" else "limit of queue "
            name = f"{kind}{printable(row.name)}"
            reason = {"paused": "it is paused", "full": "it is full", "rate": "it has no token"}.get(row.why or "", "")
            because = f", {reason}" if reason else ", it has room"
            yield f"{name}: a message waits for {row.oldest_age.total_seconds():.0f} s{because}"


def held_too_long(rows: list[HeldChannel], longest: timedelta | None) -> Iterator[str]:
    """Yield a sentence for each ordered channel that is held for longer than ``longest``; None: any time is allowed."""
    for row in rows:
        if longest is not None and row.age > longest:
            yield (
                f"{printable(row.queue)}: message {row.message_id} holds channel {printable(row.channel)} for "
                f"{row.age.total_seconds():.0f} s, attempts {row.attempts} of {row.max_attempts}"
            )


def too_many_open(rows: list[BreakerState], most: int | None) -> Iterator[str]:
    """Yield a sentence if more than ``most`` breakers are open; None: any number is allowed."""
    if most is not None and len(rows) > most:
        names = ", ".join(printable(row.name()) for row in rows[:SHOWN_BREAKERS])
        more = f" and {len(rows) - SHOWN_BREAKERS} more" if len(rows) > SHOWN_BREAKERS else ""
        yield f"{len(rows)} breaker(s) are open: {names}{more}"


def health_as_json(
    rows: list[QueueHealth],
    limits: list[LimitHealth],
    held: list[HeldChannel],
    tripped: list[BreakerState],
    problems: list[str],
) -> str:
    """Return the answer as a JSON document."""
    answer = {
        "version": 1,
        "status": CRITICAL_STATUS if problems else 0,
        "problems": problems,
        "queues": [row.as_json() for row in rows],
        "limits": [row.as_json() for row in limits],
        "held": [row.as_json() for row in held],
        "open_breakers": [row.as_json() for row in tripped],
    }
    return json.dumps(answer, indent=2, default=str)


def health_as_text(
    rows: list[QueueHealth], tripped: list[BreakerState], problems: list[str], *, is_checked: bool
) -> str:
    """Return the answer as one line. ``is_checked``: whether a limit was given."""
    if problems:
        return f"CRITICAL: {'; '.join(problems)}"
    ages = [row.oldest_age for row in rows if row.oldest_age is not None]
    oldest = f", the oldest for {max(ages).total_seconds():.0f} s" if ages else ""
    at_least = "" if all(row.complete for row in rows) else "at least "
    unknown = sum(row.unknown_handler for row in rows)
    limited = sum(row.waiting_for_limit for row in rows)
    keyed = sum(row.waiting_for_order_key for row in rows)
    missing = f", {at_least}{limited} waiting for a limit" if limited else ""
    missing += f", {at_least}{keyed} waiting for their order key" if keyed else ""
    missing += f", {len(tripped)} breaker(s) open" if tripped else ""
    missing += f", {at_least}{unknown} for handlers that the workers do not know" if unknown else ""
    paused = [printable(row.queue) for row in rows if row.paused]
    unserved = [printable(row.queue) for row in rows if not row.workers and row.ready + row.waiting_for_limit]
    missing = f", no worker for {', '.join(unserved)}{missing}" if unserved else missing
    missing = f", paused: {', '.join(paused)}{missing}" if paused else missing
    status, hint = ("OK", "") if is_checked else ("UNCHECKED", ". Give a limit, such as --max-age 300.")
    return f"{status}: {at_least}{sum(row.ready for row in rows)} ready in {len(rows)} queue(s){oldest}{missing}{hint}"
