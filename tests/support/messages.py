"""Messages that a test needs, and a look at where they are."""

from __future__ import annotations

from typing import Any

from django_pgqueue import Delivery, NewMessage, dequeue, enqueue, enqueue_many
from tests.support.sql import sql


def lease_messages(count: int = 1, *, worker: str | None = "me", **fields: Any) -> list[Delivery]:
    """Enqueue so many messages, with the payloads 0, 1 …, and lease them. The fields are those of enqueue()."""
    for number in range(count):
        enqueue("h", number, **fields)
    return dequeue(limit=count, worker=worker)


def lease_message(*, handler: str = "h", worker: str | None = None, **fields: Any) -> Delivery:
    """Enqueue a message and lease it. The fields are those of enqueue()."""
    enqueue(handler, **fields)
    [delivery] = dequeue(worker=worker)
    return delivery


def enqueue_numbered(count: int, *, first: int = 0, **fields: Any) -> list[int]:
    """Enqueue so many messages one by one, with the payloads ``first``, ``first`` + 1 … Returns the ids of those that
    the channel took."""
    answers = [enqueue("h", number, **fields) for number in range(first, first + count)]
    return [answer.id for answer in answers if answer.id is not None]


def enqueue_backlog(channel: str, count: int, **fields: Any) -> None:
    """Enqueue so many messages to one channel in one statement, with the payloads 0, 1 …"""
    enqueue_many(NewMessage(handler="h", channel=channel, payload=number, **fields) for number in range(count))


def places(message: int) -> list[str]:
    """Return where the message is. The queue promises one place, never two or none."""
    tables = {"live": "pgqueue_message", "archive": "pgqueue_archived_message", "dead letters": "pgqueue_dead_letter"}
    return [place for place, table in tables.items() for _ in sql(f"SELECT 1 FROM {table} WHERE id = %s", message)]


def live(message: int, *columns: str) -> Any:
    """Return columns of a live message: the value of one, a tuple of several."""
    [row] = sql(f"SELECT {', '.join(columns)} FROM pgqueue_message WHERE id = %s", message)
    return row[0] if len(columns) == 1 else row
