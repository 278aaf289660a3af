"""Read the history of a task: the rows of its message, and of the messages as which it was redriven."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from django_pgqueue import codecs
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.lifecycle.sealing import open_row
from django_pgqueue.models import ArchivedMessage, DeadLetter, Message
from django_pgqueue.tasks import aliases, registry
from django_pgqueue.tasks.compat import TaskError, TaskResult, TaskResultDoesNotExist, TaskResultStatus
from django_pgqueue.tasks.errors import ending, error_of, refusal
from django_pgqueue.tasks.message import Call, arguments_of, as_defined
from django_pgqueue.tasks.result import entries, make, moment, workers_of
from django_pgqueue.tasks.task import stored

Row = Message | ArchivedMessage | DeadLetter
# bigint
LARGEST = 2**63 - 1


def result_of(result_id: str) -> TaskResult:
    """Raises TaskResultDoesNotExist, also for one that has ended and whose result was not archived."""
    rows = history_of(result_id)
    task = registry.find(rows[0].handler) if rows else None
    if not rows:
        raise TaskResultDoesNotExist(
            f"{result_id}: there is no message with this id. Either it never existed, or nothing was kept of it when "
            "it ended (archive = none), or retention has dropped it."
        )
    if task is None:
        raise TaskResultDoesNotExist(f"{result_id}: its handler {rows[0].handler!r} is not a task of this process.")
    row = rows[-1]
    if isinstance(row, ArchivedMessage) and row.payload is None:
        raise TaskResultDoesNotExist(
            f"{result_id}: it was {row.outcome}, and no more than that is archived (archive = outcome): neither its "
            "arguments nor its result."
        )
    if isinstance(row, DeadLetter) and row.redriven_to is not None:
        raise TaskResultDoesNotExist(
            f"{result_id}: it was redriven as {row.redriven_to}, of which nothing is kept: its queue, channel or task "
            "archives nothing (archive = none), or retention has dropped it."
        )
    try:
        rows = [open_row(life, alias(None)) for life in rows]
    except codecs.FAILURES as error:
        raise TaskResultDoesNotExist(f"{result_id}: it is encoded, and this process cannot decode it.") from error
    args, kwargs = arguments_of(row.payload) or ([], {})
    backend = aliases.of_message(row.payload, task)
    history = [entry for life in rows for entry in entries(life.errors)]
    started = [at for life in rows if (at := started_at(life)) is not None]
    facts = {"channel": channel_of(row), "dedupe_key": row.dedupe_key, "max_attempts": row.max_attempts}
    ours: Any = aliases.own().get(backend)
    if ours is not None:
        facts = as_defined(ours, Call(task, args, kwargs), facts)
    found = make(
        stored(
            task, priority=row.priority, queue_name=queue_of(row), backend=backend, headers=row.headers,
            run_after=run_after(row), **facts,
        ),
        result_id, backend, status_of(row), args, kwargs,
        enqueued_at=rows[0].created_at, started_at=min(started, default=None),
        last_attempted_at=row.leased_at or moment(history[-1].get("leased_at") if history else None),
        finished_at=finished_at(row),
        errors=[*map(error_of, history), *refusals(row)],
        worker_ids=[worker for life in rows for worker in workers(life)],
    )  # fmt: skip
    if isinstance(row, ArchivedMessage) and found.status == TaskResultStatus.SUCCESSFUL:
        object.__setattr__(found, "_return_value", row.result)
    return found


def history_of(result_id: str) -> list[Row]:
    """Return the message and those as which it was redriven; the newest last."""
    if not isinstance(result_id, str) or not re.fullmatch("[0-9]{1,19}", result_id):
        return []
    rows: list[Row] = []
    number: int | None = int(result_id)
    while number is not None and (row := row_of(number)) is not None:
        rows.append(row)
        number = row.redriven_to if isinstance(row, DeadLetter) else None
    return rows


def row_of(number: int) -> Row | None:
    """In the order in which a message goes: it is not missed when it goes on between two looks."""
    if number > LARGEST:
        return None
    using = alias(None)
    return (
        Message.objects.using(using).select_related("channel").defer("body").filter(pk=number).first()
        or ArchivedMessage.objects.using(using).defer("body").filter(pk=number).first()
        or DeadLetter.objects.using(using).defer("body").filter(pk=number).first()
    )


def status_of(row: Row) -> TaskResultStatus:
    match row:
        case Message():
            leased = row.status == Message.Status.LEASED
            return TaskResultStatus.RUNNING if leased else TaskResultStatus.READY
        case ArchivedMessage():
            done = row.outcome == ArchivedMessage.Outcome.COMPLETED
            return TaskResultStatus.SUCCESSFUL if done else TaskResultStatus.FAILED
    return TaskResultStatus.FAILED


def queue_of(row: Row) -> str:
    return row.channel.queue if isinstance(row, Message) else row.queue


def channel_of(row: Row) -> str:
    return row.channel.name if isinstance(row, Message) else row.channel


def finished_at(row: Row) -> datetime | None:
    match row:
        case ArchivedMessage():
            return row.archived_at
        case DeadLetter():
            return row.dead_at
    return None


def run_after(row: Row) -> datetime | None:
    """As long as no attempt has failed, what was asked for."""
    return row.dequeue_at if row.dequeue_at > row.created_at and not row.errors else None


def started_at(row: Row) -> datetime | None:
    failed = entries(row.errors)
    return (moment(failed[0].get("leased_at")) if failed else None) or row.leased_at


def workers(row: Row) -> list[str]:
    """One an attempt: those that failed say it, and the last one may not have failed."""
    found = workers_of(entries(row.errors))
    return [*found, row.worker or ""] if row.leased_at is not None and len(found) < row.attempts else found


def refusals(row: Row) -> list[TaskError]:
    """Return the errors that ended the message, if no failed attempt did."""
    match row:
        case ArchivedMessage() if row.outcome != ArchivedMessage.Outcome.COMPLETED:
            return [ending(row.outcome, row.result)]
        case DeadLetter() if len(entries(row.errors)) < max(row.attempts, 1):
            return [refusal(row.reason, row.details)]
    return []
