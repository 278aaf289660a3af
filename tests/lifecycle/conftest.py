"""Shared by the tests of the verbs: a channel, time that passes without waiting, and a look at where a message is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from django_pgqueue import channel_release, channel_set, dead_letter, dequeue, enqueue
from django_pgqueue.models import Schedule, Worker
from tests.lifecycle.canary import tenant  # noqa: F401  (a fixture)
from tests.support.default_channel import _default_channel  # noqa: F401  (a fixture)
from tests.support.sql import sql
from tests.support.workers import make_worker


@pytest.fixture
def ticked(db: None) -> None:
    """Maintenance has run, as it does beside every worker."""
    sql("SELECT pgqueue_tick()")
    sql("UPDATE pgqueue_floor SET ticked_at = clock_timestamp()")


@pytest.fixture
def ordered(db: None) -> int:
    """The id of the channel ``default``, which is ordered."""
    return channel_set(channel="default", ordered=True)


@pytest.fixture
def worker() -> Worker:
    """One that serves the queue, has room, and lives."""
    return make_worker("host-1")


@pytest.fixture
def server_log(db: None) -> Iterator[list[str]]:
    """The warnings that the server raises from now on; nothing is held back because of earlier ones."""
    warnings: list[str] = []

    def hear(diagnostic: Any) -> None:
        if diagnostic.severity_nonlocalized == "WARNING":
            warnings.append(diagnostic.message_primary)

    forget_warnings()
    connection.connection.add_notice_handler(hear)
    yield warnings
    connection.connection.remove_notice_handler(hear)


def forget_warnings() -> None:
    sql("DELETE FROM pgqueue_queue_warning")
    for kind in ("dead_letter", "lease_expired"):
        sql(f"SELECT setval('pgqueue_warned_{kind}', 1)")


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


@pytest.fixture
def crowd() -> None:
    """A channel that is full, one that drops, one that is released, a dead letter of each, and a schedule."""
    for name, limits in (
        ("full", {"max_size": 1}),
        ("drops", {"max_size": 1, "full_policy": "drop"}),
        ("drops oldest", {"max_size": 1, "full_policy": "drop_oldest"}),
        ("released", {}),
    ):
        channel_set(channel=name, **limits)
        enqueue("h", channel=name)
        [delivery] = dequeue()
        dead_letter(delivery, reason="no")
    for name in ("full", "drops", "drops oldest", "released"):
        enqueue("h", channel=name)
    channel_release(channel="released")
    Schedule.objects.create(name="to full", handler="h", channel="full", every=timedelta(hours=1))
