"""Read the history of a task: the rows of its message, and of the messages as which it was redriven."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from django_pgqueue import codecs
from django_pgqueue.lifecycle.sealing import open_row
from django_pgqueue.models import ArchivedMessage, DeadLetter, Message
from django_pgqueue.sql.call import alias
from django_pgqueue.tasks import aliases, registry
from django_pgqueue.tasks.compat import TaskError, TaskResult, TaskResultDoesNotExist, TaskResultStatus
from django_pgqueue.tasks.errors import archived_error, attempt_error, dead_letter_error
from django_pgqueue.tasks.message import Call, arguments_of, as_defined
from django_pgqueue.tasks.result import attempt_began_at, error_entries, make_result, workers_of_errors
from django_pgqueue.tasks.task import stored_task

Row = Message | ArchivedMessage | DeadLetter
# The largest bigint.
LARGEST_ID = 2**63 - 1


def result_of(result_id: str) -> TaskResult:
    """Return the result of a task, from its message and those as which it was redriven.

    ``result_id``: the id of the first message, as text. Raises TaskResultDoesNotExist if there is no such message, if
    its handler is not a task of this process, if its result was not archived, or if it cannot be decoded.
    """
    rows = history_of(result_id)
    task = registry.find_task(rows[0].handler) if rows else None
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
    backend = aliases.alias_of_message(row.payload, task)
    history = [entry for each in rows for entry in error_entries(each.errors)]
    started = [at for each in rows if (at := started_at(each)) is not None]
    facts = {
        "channel": channel_of(row), "dedupe_key": row.dedupe_key, "order_key": row.order_key,
        "max_attempts": row.max_attempts,
    }  # fmt: skip
    ours: Any = aliases.own_backends().get(backend)
    if ours is not None:
        facts = as_defined(ours, Call(task, args, kwargs), facts)
    found = make_result(
        stored_task(
            task, priority=row.priority, queue_name=queue_of(row), backend=backend, headers=row.headers,
            run_after=run_after(row), **facts,
        ),
        result_id, backend, status_of(row), args, kwargs,
        enqueued_at=rows[0].created_at, started_at=min(started, default=None),
        last_attempted_at=began_at(row) or (attempt_began_at(history[-1]) if history else None),
        finished_at=finished_at(row),
        errors=[*map(attempt_error, history), *final_errors(row)],
        worker_ids=[worker for each in rows for worker in worker_names(each)],
    )  # fmt: skip
    if isinstance(row, ArchivedMessage) and found.status == TaskResultStatus.SUCCESSFUL:
        object.__setattr__(found, "_return_value", row.result)
    return found


def history_of(result_id: str) -> list[Row]:
    """Return the rows of the message and of those as which it was redriven, the newest last; empty if there is none."""
    if not isinstance(result_id, str) or not re.fullmatch("[0-9]{1,19}", result_id):
        return []
    rows: list[Row] = []
    number: int | None = int(result_id)
    while number is not None and (row := row_of(number)) is not None:
        rows.append(row)
        number = row.redriven_to if isinstance(row, DeadLetter) else None
    return rows


def row_of(number: int) -> Row | None:
    """Return the row with this id of the live messages, the archive or the dead letters, or None.

    The tables are read in the order in which a message moves, so that one that moves meanwhile is not missed.
    """
    if number > LARGEST_ID:
        return None
    using = alias(None)
    return (
        Message.objects.using(using).select_related("channel").defer("body").filter(pk=number).first()
        or ArchivedMessage.objects.using(using).defer("body").filter(pk=number).first()
        or DeadLetter.objects.using(using).defer("body").filter(pk=number).first()
    )


def status_of(row: Row) -> TaskResultStatus:
    """Return the framework's status of a message."""
    match row:
        case Message():
            leased = row.status == Message.Status.LEASED
            return TaskResultStatus.RUNNING if leased else TaskResultStatus.READY
        case ArchivedMessage():
            done = row.outcome == ArchivedMessage.ArchiveOutcome.COMPLETED
            return TaskResultStatus.SUCCESSFUL if done else TaskResultStatus.FAILED
    return TaskResultStatus.FAILED


def queue_of(row: Row) -> str:
    """Return the name of the message's queue."""
    return row.channel.queue if isinstance(row, Message) else row.queue


def channel_of(row: Row) -> str:
    """Return the name of the message's channel."""
    return row.channel.name if isinstance(row, Message) else row.channel


def finished_at(row: Row) -> datetime | None:
    """Return when the message ended, or None while it is live."""
    match row:
        case ArchivedMessage():
            return row.archived_at
        case DeadLetter():
            return row.dead_at
    return None


def run_after(row: Row) -> datetime | None:
    """Return the time for which the task was enqueued, as long as no attempt has failed; None: at once."""
    return row.dequeue_at if row.dequeue_at > row.created_at and not row.errors else None


def started_at(row: Row) -> datetime | None:
    """Return when the first attempt began, or None."""
    failed = error_entries(row.errors)
    return (attempt_began_at(failed[0]) if failed else None) or began_at(row)


def began_at(row: Row) -> datetime | None:
    """Return when the handler of the last attempt started; where only its lease is known, when that began."""
    return getattr(row, "started_at", None) or row.leased_at


def worker_names(row: Row) -> list[str]:
    """Return the name of the worker of each attempt, oldest first.

    The errors name those of failed attempts; the row names that of the last attempt, which may not have failed.
    """
    found = workers_of_errors(error_entries(row.errors))
    return [*found, row.worker or ""] if row.leased_at is not None and len(found) < row.attempts else found


def final_errors(row: Row) -> list[TaskError]:
    """Return the error that ended the message, if it was not the failure of an attempt."""
    match row:
        case ArchivedMessage() if row.outcome != ArchivedMessage.ArchiveOutcome.COMPLETED:
            return [archived_error(row.outcome, row.result)]
        case DeadLetter() if len(workers_of_errors(error_entries(row.errors))) < max(row.attempts, 1):
            return [dead_letter_error(row.reason, row.details)]
    return []
