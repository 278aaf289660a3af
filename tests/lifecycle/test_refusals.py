"""A verb refuses before it writes anything: the caller's transaction commits the rest."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.urls import path

from django_pgqueue import (
    cancel,
    channel_pause,
    channel_purge,
    channel_release,
    channel_resume,
    channel_set,
    enqueue,
    enqueue_many,
    explain_channel,
    queue_drop,
    queue_pause,
    queue_purge,
    queue_resume,
    redrive,
    schedule_run,
)
from django_pgqueue.delivery import NewMessage
from django_pgqueue.exceptions import (
    ChannelFull,
    ChannelNotFound,
    ChannelReleased,
    InvalidMessage,
    MessageNotFound,
    PgQueueError,
    QueueNotEmpty,
    ScheduleNotFound,
)
from django_pgqueue.models import Channel
from tests.support.cases import cases
from tests.support.sql import sql

pytestmark = pytest.mark.django_db
PAST = datetime(2000, 1, 1, tzinfo=UTC)
LONG_NAME = "x" * 201


def letters(channel: str) -> list[int]:
    return [row[0] for row in sql("SELECT id FROM pgqueue_dead_letter WHERE channel = %s", channel)]


def many(*channels: str, **given: Any) -> list[NewMessage]:
    return [NewMessage(handler="h", channel=channel, **given) for channel in channels]


REFUSED: dict[str, tuple[type[PgQueueError], Callable[[], object]]] = {
    "enqueue, full": (ChannelFull, lambda: enqueue("h", channel="full")),
    "enqueue, full, with a key": (ChannelFull, lambda: enqueue("h", channel="full", dedupe_key="k")),
    "enqueue, released": (ChannelReleased, lambda: enqueue("h", channel="released")),
    "enqueue, no channel": (ChannelNotFound, lambda: enqueue("h", channel="missing")),
    "enqueue, no name": (InvalidMessage, lambda: enqueue("")),
    "enqueue, long key": (InvalidMessage, lambda: enqueue("h", dedupe_key=LONG_NAME)),
    "enqueue, back-off": (InvalidMessage, lambda: enqueue("h", backoff=timedelta(seconds=-1))),
    "enqueue_many, one does not fit": (ChannelFull, lambda: enqueue_many(many("default", "full"))),
    "enqueue_many, with keys": (
        ChannelFull, lambda: enqueue_many([*many("default", dedupe_key="a"), *many("full", dedupe_key="b")]),
    ),
    "enqueue_many, one that drops": (ChannelReleased, lambda: enqueue_many(many("default", "drops", "released"))),
    "enqueue_many, no channel": (ChannelNotFound, lambda: enqueue_many(many("default", "missing"))),
    "enqueue_many, invalid": (
        InvalidMessage, lambda: enqueue_many([*many("default"), *many("default", priority=40_000)]),
    ),
    "schedule_run, full": (ChannelFull, lambda: schedule_run("to full")),
    "schedule_run, no schedule": (ScheduleNotFound, lambda: schedule_run("missing")),
    "channel_set, weight": (InvalidMessage, lambda: channel_set(channel="default", weight=2000)),
    "channel_set, too many": (InvalidMessage, lambda: channel_set(channel="default", max_size=3_000_000_000)),
    "channel_set, name": (InvalidMessage, lambda: channel_set(channel=LONG_NAME)),
    "channel_pause": (ChannelNotFound, lambda: channel_pause(channel="missing")),
    "channel_pause, over": (InvalidMessage, lambda: channel_pause(channel="default", until=PAST)),
    "channel_resume": (ChannelNotFound, lambda: channel_resume(channel="missing")),
    "channel_release": (ChannelNotFound, lambda: channel_release(channel="missing")),
    "purge": (ChannelNotFound, lambda: channel_purge(channel="missing")),
    "purge, negative": (InvalidMessage, lambda: channel_purge(channel="default", limit=-1)),
    "queue_pause": (ChannelNotFound, lambda: queue_pause("missing")),
    "queue_pause, over": (InvalidMessage, lambda: queue_pause("default", until=PAST)),
    "queue_resume": (ChannelNotFound, lambda: queue_resume("missing")),
    "queue_purge": (ChannelNotFound, lambda: queue_purge(queue="missing")),
    "queue_purge, negative": (InvalidMessage, lambda: queue_purge(queue="default", limit=-1)),
    "queue_drop": (ChannelNotFound, lambda: queue_drop(queue="missing")),
    "queue_drop, not empty": (QueueNotEmpty, lambda: queue_drop(queue="default")),
    "explain_channel": (ChannelNotFound, lambda: explain_channel(channel="missing")),
    "cancel": (MessageNotFound, lambda: cancel(2**40)),
    "redrive, full": (ChannelFull, lambda: redrive(letters("full"))),
    "redrive, full that drops": (ChannelFull, lambda: redrive(letters("drops"))),
    "redrive, full that drops the oldest": (ChannelFull, lambda: redrive(letters("drops oldest"))),
    "redrive, released": (ChannelReleased, lambda: redrive(letters("full"), channel="released")),
    "redrive, one is released": (ChannelReleased, lambda: redrive([*letters("released"), *letters("default")])),
    "redrive, no channel": (ChannelNotFound, lambda: redrive(letters("full"), channel="missing")),
    "redrive, unequal": (InvalidMessage, lambda: redrive(letters("full"), payloads=[1, 2])),
}  # fmt: skip


def all_rows() -> list[Any]:
    """All that a refusal must leave as it is. A count behind max_size is what it says, less what has departed."""
    names = [
        name for (name,) in sql(
            "SELECT relname FROM pg_class WHERE relname LIKE 'pgqueue\\_%%' AND relkind IN ('r', 'p')"
            " AND NOT relispartition"
            " AND relname NOT IN ('pgqueue_channel_size', 'pgqueue_departure') ORDER BY 1"
        )
    ]  # fmt: skip
    rows = [sql(f"SELECT jsonb_agg(to_jsonb(t) ORDER BY t::text) FROM {name} AS t") for name in names]
    live = sql(
        "SELECT s.channel_id, s.live - coalesce(sum(d.messages), 0) FROM pgqueue_channel_size AS s"
        " LEFT JOIN pgqueue_departure AS d ON d.channel_id = s.channel_id GROUP BY s.channel_id, s.live ORDER BY 1"
    )
    return [*rows, live]


@cases("what", REFUSED)
def test_after_a_refusal_the_transaction_goes_on_and_nothing_has_changed(crowd: None, what: str) -> None:
    error, ask = REFUSED[what]
    enqueue("before")
    before = all_rows()
    with pytest.raises(error) as raised:
        ask()
    assert all_rows() == before
    assert raised.value.outcome
    assert str(raised.value).strip()
    assert enqueue("after").created


@pytest.mark.django_db(transaction=True)
def test_a_caught_refusal_keeps_the_row_that_was_written_before() -> None:
    channel_set(channel="full", max_size=1)
    enqueue("h", channel="full")
    with transaction.atomic():
        Channel.objects.create(name="written before")
        with suppress(ChannelFull):
            enqueue("h", channel="full")
        Channel.objects.create(name="written afterwards")
    assert set(Channel.objects.values_list("name", flat=True)) >= {"written before", "written afterwards"}


def order_view(request: HttpRequest) -> HttpResponse:
    Channel.objects.create(name="an order")
    try:
        enqueue("mail", channel="full")
    except ChannelFull as error:
        return HttpResponse(str(error))
    return HttpResponse("sent")


urlpatterns = [path("order/", order_view)]
