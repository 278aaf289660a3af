"""What the tests of the verbs share: a channel, time that passes without waiting, and a look at where a message is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from django_pgqueue import Delivery, channel_set
from django_pgqueue.exceptions import PgQueueError
from django_pgqueue.models import Worker

# Tables that Django does not manage: its flush after a transactional test leaves them as they are.
RUNTIME = (
    "pgqueue_lane, pgqueue_arrival, pgqueue_archived_message, pgqueue_channel_size, pgqueue_departure, pgqueue_waiter, "
    "pgqueue_tally, pgqueue_unarchived, pgqueue_unarchived_total"
)
# Every moment that a function compares with the clock.
MOMENTS = {
    "pgqueue_message": ("dequeue_at", "leased_at", "last_leased_at", "lease_expires_at"),
    "pgqueue_lane": ("floor_at", "parked_until", "next_at", "lease_floor"),
    "pgqueue_arrival": ("floor_at",),
    "pgqueue_floor": ("parked_from", "ticked_at", "expiry_from", "due_from", "watched_at"),
    "pgqueue_waiter": ("wait_until",),
    "pgqueue_channel": ("released_at", "paused_until"),
    "pgqueue_queue": ("paused_until",),
    "pgqueue_dead_letter": ("dead_at",),
}


@pytest.fixture(autouse=True)
def _default_channel(request: pytest.FixtureRequest, db: None) -> Iterator[None]:
    if not connection.in_atomic_block:
        sql(f"TRUNCATE {RUNTIME}")
    channel_set(channel="default")
    yield
    if not connection.in_atomic_block:
        sql(f"TRUNCATE {RUNTIME}")


@pytest.fixture
def ticked(_default_channel: None) -> None:
    """Maintenance has run, as it does beside every worker."""
    sql("SELECT pgqueue_tick()")
    sql("UPDATE pgqueue_floor SET ticked_at = clock_timestamp()")


@pytest.fixture
def worker() -> Worker:
    """One that serves the queue, has room, and lives."""
    return make_worker("host-1")


def make_worker(name: str, **fields: Any) -> Worker:
    given = {"hostname": "h", "pid": 1, "queues": ["default"], "concurrency": 2, "version": "1"}
    return Worker.objects.create(name=name, **given | fields)


@pytest.fixture
def server_log(db: None) -> Iterator[list[str]]:
    """The warnings that the server raises from now on; nothing is held back because of earlier ones."""
    warnings: list[str] = []

    def hear(diagnostic: Any) -> None:
        if diagnostic.severity == "WARNING":
            warnings.append(diagnostic.message_primary)

    forget_warnings()
    connection.connection.add_notice_handler(hear)
    yield warnings
    connection.connection.remove_notice_handler(hear)


def forget_warnings() -> None:
    sql("DELETE FROM pgqueue_queue_warning")
    for kind in ("dead_letter", "lease_expired"):
        sql(f"SELECT setval('pgqueue_warned_{kind}', 1)")


def sql(statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters or None)
        return cursor.fetchall() if cursor.description else []


def value(statement: str, *parameters: Any) -> Any:
    [[only]] = sql(statement, *parameters)
    return only


def partition_of(days_ago: int) -> str:
    """The name of a partition of the past, made by hand."""
    [(name, first, last)] = sql(
        """
        SELECT 'pgqueue_archived_message_' || to_char(day, 'YYYYMMDD'), (day AT TIME ZONE 'UTC')::text,
            ((day + interval '1 day') AT TIME ZONE 'UTC')::text
        FROM (SELECT date_trunc('day', now() AT TIME ZONE 'UTC') - %s * interval '1 day' AS day) AS d""",
        days_ago,
    )
    bounds = f"FROM ('{first}') TO ('{last}')"
    sql(f"CREATE TABLE IF NOT EXISTS {name} PARTITION OF pgqueue_archived_message FOR VALUES {bounds}")
    return name


@pytest.fixture
def _yesterday() -> Iterator[None]:
    """The archive has a place for it: just after midnight, half an hour ago is there."""
    name = partition_of(days_ago=1)
    yield
    sql(f"DROP TABLE {name}")


def expire(*deliveries: Delivery) -> None:
    """As if the workers had been silent for longer than the lease."""
    sql(
        "UPDATE pgqueue_message SET lease_expires_at = clock_timestamp() - interval '1 second' WHERE id = ANY (%s)",
        [delivery.id for delivery in deliveries],
    )
    # A lease never begins in the past: a tick of a moment ago would have passed it.
    sql("UPDATE pgqueue_floor SET expiry_from = '-infinity'")


def pass_time(**duration: float) -> None:
    """`pass_time(minutes=1)`: moves every moment that the queue knows into the past, instead of waiting."""
    for table, columns in MOMENTS.items():
        moves = ", ".join(f"{column} = {column} - %s" for column in columns)
        sql(f"UPDATE {table} SET {moves}", *[timedelta(**duration)] * len(columns))


def places(message: int) -> list[str]:
    """Where the message is. A promise of the queue: in one place, never in two or none."""
    tables = {"live": "pgqueue_message", "archive": "pgqueue_archived_message", "dead letters": "pgqueue_dead_letter"}
    return [place for place, table in tables.items() for _ in sql(f"SELECT 1 FROM {table} WHERE id = %s", message)]


def live(message: int, *columns: str) -> Any:
    """Columns of a live message: the value of one, a tuple of several."""
    [row] = sql(f"SELECT {', '.join(columns)} FROM pgqueue_message WHERE id = %s", message)
    return row[0] if len(columns) == 1 else row


def refuses(error: type[Exception]) -> bool:
    """Whether the verbs return the refusal to Python, which raises this error: the transaction stays usable."""
    return issubclass(error, PgQueueError) and error.outcome != ""


def refusal(call: str, *parameters: Any) -> Any:
    """The first refusal that this call of a verb returns in SQL."""
    return json.loads(sql(f"SELECT refusal FROM {call} WHERE refusal IS NOT NULL", *parameters)[0][0])


@contextmanager
def refused(error: type[Exception], match: str | None = None) -> Iterator[pytest.ExceptionInfo[Any]]:
    """The block raises this error, and the transaction of the test goes on: by itself after a refusal of the queue."""
    with pytest.raises(error, match=match) as raised, nullcontext() if refuses(error) else transaction.atomic():
        yield raised
    if isinstance(raised.value, PgQueueError):
        assert str(raised.value).strip()


@contextmanager
def rolled_back() -> Iterator[None]:
    """A transaction, or a savepoint, that does not commit."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def a_moment_of_the_database() -> Any:
    return value("SELECT clock_timestamp()")
