"""Look at the queue: stats, health, doctor and explain."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentTypeError
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError

from django_pgqueue import doctor
from django_pgqueue.checks.migrated import find_schema_problem
from django_pgqueue.doctor import Finding, Limits, Severity
from django_pgqueue.lifecycle.breakers import BreakerState, breakers
from django_pgqueue.lifecycle.figures import (
    MOST_COUNTED_ROWS,
    HeldChannel,
    LimitHealth,
    QueueHealth,
    Reason,
    explain_channel,
    explain_message,
    health,
    held_channels,
    limit_health,
    traffic,
)
from django_pgqueue.lifecycle.logs import KeptLog, logs_of
from django_pgqueue.lifecycle.queues import queue_names
from django_pgqueue.lifecycle.upkeep import repair
from django_pgqueue.limits import handler_of_limit
from django_pgqueue.management.cli.options import NAME, QUEUE, duration, option, positive, whole
from django_pgqueue.management.cli.verbs import VerbRun, verb
from django_pgqueue.management.database import UNKNOWN_STATUS
from django_pgqueue.models import Channel
from django_pgqueue.redaction import printable
from django_pgqueue.sql.call import bounded_read

CRITICAL_STATUS = 2
STATEMENT_SECONDS = 30.0
CLEAR = "\x1b[H\x1b[2J"
SHOWN_BREAKERS = 5
MOST_QUEUES = 20
STATS = ("queue", "ready", "leased", "scheduled", "blocked", "limited", "keyed", "dead", "oldest", "workers", "state")
HEALTH_LIMITS = ("max_age", "max_backlog", "max_dead", "max_limit_wait", "max_held", "max_open_breakers")
FINDING_COLUMNS = 10
STYLES = {Severity.CRITICAL: "ERROR", Severity.WARNING: "WARNING", Severity.NOTE: "NOTICE"}


def interval(text: str) -> float:
    """Return a duration from 0.1 s to an hour, in seconds. Raises ArgumentTypeError."""
    seconds = duration(text).total_seconds()
    if not 0.1 <= seconds <= 3600:
        raise ArgumentTypeError(f"{text} is not between 0.1 s and an hour")
    return seconds


@verb(
    "stats", "Count each queue's messages by state, and show how long the oldest waits.", "--watch", QUEUE,
    option("--watch", nargs="?", type=interval, const=2.0, metavar="DURATION", help="repeat it (default: every 2 s)"),
    option("--times", type=positive, metavar="N", help="with --watch: stop after so many times"),
)  # fmt: skip
def stats(run: VerbRun) -> None:
    given = run.given
    left, before = 1 if given.watch is None else given.times, None
    try:
        while left is None or left > 0:
            rows, now = health(given.queue, using=run.using), traffic(using=run.using)
            if given.queue is not None and not rows:
                known = ", ".join(map(printable, queue_names(using=run.using))) or "none"
                raise CommandError(f"There is no queue {printable(given.queue)!r}. Queues: {known}.")
            rates = now.since(before) if before else None
            lines = run.grid([counts(row) for row in rows], STATS) if rows else ["No queues."]
            if rates is not None:
                lines.append("per second: " + ", ".join(f"{rate:.1f} {name}" for name, rate in rates.items()))
            if given.watch is not None and run.command.stdout.isatty():
                lines[0] = CLEAR + lines[0]
            run.show(lines, queues=[row.as_json() for row in rows], per_second=rates)
            run.command.stdout.flush()
            before, left = now, None if left is None else left - 1
            if left != 0:
                time.sleep(given.watch or 0)
    except KeyboardInterrupt:
        return


def counts(row: QueueHealth) -> dict[str, Any]:
    """Return the row of a queue in the table of stats."""
    more = "" if row.complete else "+"
    waiting = row.scheduled, row.blocked, row.waiting_for_limit, row.waiting_for_order_key
    numbers = [f"{number}{more}" for number in (row.ready, row.leased, *waiting, row.dead)]
    oldest = None if row.oldest_age is None else timedelta(seconds=round(row.oldest_age.total_seconds()))
    return dict(zip(STATS, (row.queue, *numbers, oldest, row.workers, "paused" if row.paused else ""), strict=True))


@verb(
    "health", "Report in one line whether the queues keep up, for monitors. Without a limit it checks nothing.",
    "--max-age 5m --max-dead 100",
    option("--max-age", type=duration, metavar="DURATION", help="the longest time that a ready message may wait"),
    option("--max-backlog", type=whole(0, 1_000_000), metavar="N", help="the most ready messages in a queue"),
    option("--max-dead", type=whole(0, 1_000_000), metavar="N", help="the most dead letters that wait for a redrive"),
    option("--max-limit-wait", type=duration, metavar="DURATION",
           help="the longest time that a message may wait for a shared limit, or in a queue at its limit"),
    option("--max-held", type=duration, metavar="DURATION",
           help="the longest time that a failing message may hold an ordered channel"),
    option("--max-open-breakers", type=whole(0, 1_000_000), metavar="N", help="the most open breakers of handlers"),
    option("--queue", action="append", metavar="NAME", help="only this queue; may be repeated"),
)  # fmt: skip
def report_health(run: VerbRun) -> None:
    given, only = run.given, run.given.queue
    most = [number + 1 for number in (given.max_backlog, given.max_dead) if number is not None]
    with bounded_read(run.using, seconds=STATEMENT_SECONDS):
        rows = health(most=max([MOST_COUNTED_ROWS, *most]), using=run.using)
        shared, held = limit_health(using=run.using), held_channels(using=run.using)
        tripped = [breaker for breaker in breakers(using=run.using) if breaker.is_open]
    if only is not None:
        if missing := set(only) - {row.queue for row in rows}:
            names = ", ".join(sorted(map(printable, missing)))
            raise CommandError(f"There is no queue {names}: no channel is in it.", returncode=UNKNOWN_STATUS)
        rows = [row for row in rows if row.queue in only]
        shared = [limit for limit in shared if limit.kind == "shared" or limit.name in only]
        held = [channel for channel in held if channel.queue in only]
        tripped = [breaker for breaker in tripped if breaker.queue is None or breaker.queue in only]
    problems = [problem for row in rows for problem in exceeded(row, given)]
    problems += waits(shared, held, tripped, given)
    is_checked = any(getattr(given, name) is not None for name in HEALTH_LIMITS)
    if problems:
        text = f"{run.paint('ERROR', 'CRITICAL')}: {'; '.join(problems)}"
    else:
        word = run.paint("SUCCESS", "OK") if is_checked else run.paint("WARNING", "UNCHECKED")
        text = f"{word}: {health_text(rows, tripped)}{'' if is_checked else '. Give a limit, such as --max-age 5m.'}"
    run.show(
        [text], status=CRITICAL_STATUS if problems else 0, problems=problems,
        queues=[row.as_json() for row in rows], limits=[row.as_json() for row in shared],
        held=[row.as_json() for row in held], open_breakers=[row.as_json() for row in tripped],
    )  # fmt: skip
    if problems:
        sys.exit(CRITICAL_STATUS)


def exceeded(row: QueueHealth, given: Any) -> Iterator[str]:
    """Yield a sentence for each limit that the queue exceeds."""
    queue, at_least = printable(row.queue), "" if row.complete else "at least "
    if given.max_age is not None and row.oldest_age is not None and row.oldest_age > given.max_age:
        channel = printable(row.oldest_channel or "")
        because = ", the queue is paused" if row.paused else "" if row.workers else ", no worker serves the queue"
        yield f"{queue}: a message of channel {channel} waits for {row.oldest_age.total_seconds():.0f} s{because}"
    if given.max_backlog is not None and row.ready > given.max_backlog:
        yield f"{queue}: {at_least}{row.ready} ready"
    if given.max_dead is not None and row.dead > given.max_dead:
        yield f"{queue}: {at_least}{row.dead} dead"


def waits(limits: list[LimitHealth], held: list[HeldChannel], tripped: list[BreakerState], given: Any) -> Iterator[str]:
    """Yield a sentence for each limit and channel that holds messages up for too long, and for too many breakers."""
    for limit in limits:
        if (
            given.max_limit_wait is not None
            and limit.oldest_age is not None
            and limit.oldest_age > given.max_limit_wait
        ):
            # The limit of a paused handler is called "handler" and its name.
            is_handler = limit.kind == "shared" and handler_of_limit(limit.name)
            kind = "" if is_handler else "limit " if limit.kind == "shared" else "limit of queue "
            reason = {"paused": "it is paused", "full": "it is full", "rate": "it has no token"}.get(limit.why or "")
            age = limit.oldest_age.total_seconds()
            yield f"{kind}{printable(limit.name)}: a message waits for {age:.0f} s, {reason or 'it has room'}"
    for row in held:
        if given.max_held is not None and row.age > given.max_held:
            yield (
                f"{printable(row.queue)}: message {row.message_id} holds channel {printable(row.channel)} for "
                f"{row.age.total_seconds():.0f} s, attempts {row.attempts} of {row.max_attempts}"
            )
    if given.max_open_breakers is not None and len(tripped) > given.max_open_breakers:
        names = ", ".join(printable(row.name()) for row in tripped[:SHOWN_BREAKERS])
        more = f" and {len(tripped) - SHOWN_BREAKERS} more" if len(tripped) > SHOWN_BREAKERS else ""
        yield f"{len(tripped)} breaker(s) are open: {names}{more}"


def health_text(rows: list[QueueHealth], tripped: list[BreakerState]) -> str:
    """Return the counts, and what else an operator should know, in one line."""
    at_least = "" if all(row.complete for row in rows) else "at least "
    text = f"{at_least}{sum(row.ready for row in rows)} ready in {len(rows)} queue(s)"
    if ages := [row.oldest_age for row in rows if row.oldest_age is not None]:
        text += f", the oldest for {max(ages).total_seconds():.0f} s"
    if paused := [printable(row.queue) for row in rows if row.paused]:
        text += f", paused: {', '.join(paused)}"
    unserved = [printable(row.queue) for row in rows if not row.workers and row.ready + row.waiting_for_limit]
    if unserved:
        text += f", no worker for {', '.join(unserved)}"
    if limited := sum(row.waiting_for_limit for row in rows):
        text += f", {at_least}{limited} waiting for a limit"
    if keyed := sum(row.waiting_for_order_key for row in rows):
        text += f", {at_least}{keyed} waiting for their order key"
    if blocked := sum(row.blocked for row in rows):
        text += f", {at_least}{blocked} waiting for other messages"
    if tripped:
        text += f", {len(tripped)} breaker(s) open"
    if unknown := sum(row.unknown_handler for row in rows):
        text += f", {at_least}{unknown} for handlers that the workers do not know"
    return text


def examination(text: str) -> str:
    """Return the name of an examination or the code of a finding. Raises ArgumentTypeError for any other text."""
    if doctor.examination_of(text) is None:
        known = ", ".join(doctor.EXAMINATIONS)
        raise ArgumentTypeError(f"{text!r} is no examination and no finding. Examinations: {known}.")
    return text


@verb(
    "doctor", "Find problems of the queue and its database, and say what to do.", "--only horizon",
    option("--fix", action="store_true", help="repair counts and places that disagree, then examine"),
    option("--only", action="append", type=examination, metavar="NAME", help="only this examination, or this finding"),
    option("--old-transaction", type=duration, metavar="DURATION",
           help="the age from which a transaction is old (default: 5m)"),
    option("--max-wait", type=duration, metavar="DURATION",
           help="how long a channel may wait (default: WAITING_WARNING)"),
    database="named",
)  # fmt: skip
def examine(run: VerbRun) -> None:
    given = run.given
    limits = {"old_transaction": given.old_transaction, "waiting": given.max_wait}
    repaired = repair(using=run.using) if given.fix and find_schema_problem(run.using) is None else None
    report = doctor.examine(
        using=run.using, limits=Limits(**{name: value for name, value in limits.items() if value}), only=given.only
    )
    lines = []
    if repaired is not None:
        lines.append(
            f"repaired: {repaired.counts} counts, {repaired.lease_floors} lease floors, {repaired.places} places\n"
        )
    lines += [finding_text(run, finding) for finding in report.findings]
    found = [finding.severity for finding in report.findings]
    lines.append(", ".join(f"{found.count(severity)} {severity.word}" for severity in reversed(Severity)))
    run.show(
        lines, severity=report.severity.word, status=int(report.severity), repaired=repaired and asdict(repaired),
        findings=[{**asdict(finding), "severity": finding.severity.word} for finding in report.findings],
    )  # fmt: skip
    if report.severity:
        sys.exit(report.severity)


def finding_text(run: VerbRun, finding: Finding) -> str:
    """Return one finding as text."""
    indent = " " * FINDING_COLUMNS
    word = run.paint(STYLES[finding.severity], f"{finding.severity.word.upper():{FINDING_COLUMNS}}")
    return f"{word}{finding.code}\n{indent}{finding.problem}\n{indent}> {finding.action}\n"


@verb(
    "explain message", "Say why a message is not running, or how it ended.", "4711",
    option("id", type=int, metavar="ID", help="a message, live or settled"),
)  # fmt: skip
def explain_one(run: VerbRun) -> None:
    found = explain_message(run.given.id, using=run.using)
    explain(run, {"": found}, logs_of(run.given.id, using=run.using))


@verb(
    "explain channel", "Say why the messages of a channel are not running.", "acme --queue mails", NAME,
    option("--queue", metavar="NAME", help="the queue of the channel (default: each that has one of this name)"),
)  # fmt: skip
def explain_tenant(run: VerbRun) -> None:
    name, queue = run.given.name, run.given.queue
    rows = Channel.objects.using(run.using).filter(name=name, queue__in=queue_names(using=run.using))
    queues = [queue] if queue else list(rows.order_by("queue").values_list("queue", flat=True)[:MOST_QUEUES])
    explain(run, {q: explain_channel(channel=name, queue=q, using=run.using) for q in queues or ["default"]})


def explain(run: VerbRun, found: dict[str, list[Reason]], logs: Sequence[KeptLog] = ()) -> None:
    """Answer with the reasons by queue; the name of a queue is empty for a message. ``logs``: those of the message."""
    width = max((len(reason.code) for reasons in found.values() for reason in reasons), default=0)
    lines, facts = [], []
    for queue, reasons in found.items():
        lines += [f"{printable(queue)}/{printable(run.given.name)}:"] if len(found) > 1 else []
        lines += [f"{reason.code:<{width}}  {printable(reason.sentence)}" for reason in reasons]
        facts += [asdict(reason) | ({"queue": queue} if queue else {}) for reason in reasons]
    for kept in logs:
        text = kept.log if isinstance(kept.log, str) else "(encrypted: the admin shows it)"
        lines += [
            f"log of attempt {kept.attempt}, {kept.written_at:%Y-%m-%d %H:%M:%S}:",
            *(f"  {printable(line)}" for line in text.splitlines()),
        ]
    run.show(lines, reasons=facts, **({"logs": [asdict(kept) for kept in logs]} if logs else {}))
