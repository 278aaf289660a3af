from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgqueue import channel_set, complete, dead_letter, dequeue, enqueue, redrive, retry
from django_pgqueue.lifecycle.figures import QueueHealth, health
from django_pgqueue.lifecycle.settle import defer_unknown
from django_pgqueue.models import Worker
from tests.support.moments import pass_time
from tests.support.sql import sql, value

pytestmark = pytest.mark.django_db


def only(**options: object) -> QueueHealth:
    [row] = health("default", **options)
    return row


def test_a_queue_that_is_empty():
    assert health() == [QueueHealth("default", 0, 0, 0, 0, 0, 0, None, None, 0, False, True)]


def test_every_state_is_counted_queue_by_queue():
    channel_set(channel="a", queue="mails")
    channel_set(channel="b")
    for channel in ("default", "b", "b"):
        for _ in range(2):
            enqueue("h", channel=channel)
    enqueue("h", delay=timedelta(hours=1))
    enqueue("h", channel="a", queue="mails")
    [one, *_] = dequeue(limit=3)
    dead_letter(one, reason="refused")
    rows = {row.queue: (row.ready, row.leased, row.scheduled, row.dead) for row in health()}
    assert rows == {"default": (3, 2, 1, 1), "mails": (1, 0, 0, 0)}
    redrive([one.id])
    assert only().dead == 0


def test_the_oldest_of_all_channels_and_priorities():
    channel_set(channel="b")
    enqueue("h", priority=-3)
    pass_time(minutes=10)
    enqueue("h", priority=3)
    enqueue("h", channel="b", priority=1)
    row = only()
    assert timedelta(minutes=10) <= row.oldest_age < timedelta(minutes=11)
    assert row.oldest_channel == "default"
    complete(dequeue(limit=10))
    assert (only().oldest_age, only().oldest_channel) == (None, None)


def test_workers_that_are_alive_and_serve_the_queue():
    channel_set(channel="a", queue="mails")
    for name, queues in {"w1": ["default", "mails"], "w2": ["mails"], "w3": ["default"], "w4": ["default"]}.items():
        Worker.objects.create(name=name, hostname="h", pid=1, queues=queues, concurrency=1, version="0")
    sql("UPDATE pgqueue_worker SET heartbeat_at = clock_timestamp() - interval '1 minute' WHERE name = 'w3'")
    sql("UPDATE pgqueue_worker SET state = 'stopping' WHERE name = 'w4'")
    assert {row.queue: row.workers for row in health()} == {"default": 1, "mails": 2}


@pytest.mark.parametrize("state", ["ready", "leased", "scheduled", "dead"])
def test_more_than_are_counted(state):
    delay = timedelta(hours=1) if state == "scheduled" else None
    for _ in range(5):
        enqueue("h", delay=delay)
    if state in ("leased", "dead"):
        held = dequeue(limit=5)
    if state == "dead":
        dead_letter(held, reason="refused")
    assert (getattr(only(most=5), state), only(most=6).complete) == (5, True)
    assert (getattr(only(most=4), state), only(most=4).complete) == (4, False)


def test_the_blocks_that_health_reads_do_not_grow_with_the_backlog():
    channel_set(channel="other")
    costs = []
    for count in (2_000, 20_000):
        sql(
            "INSERT INTO pgqueue_message (channel_id, handler, priority)"
            " SELECT c.id, 'h', n %% 3 FROM pgqueue_channel AS c, generate_series(1, %s) AS n",
            count,
        )
        sql("ANALYZE pgqueue_message")
        health(most=100)
        [[plan]] = sql("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM pgqueue_health(NULL, 100)")
        costs.append(plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"])
    assert costs[1] < 2 * costs[0], costs
    assert value("SELECT count(*) FROM pgqueue_waiting()") == 2


def test_messages_for_handlers_that_the_workers_do_not_know_are_counted():
    for handler in ("unknown", "unknown", "fails", "known"):
        enqueue(handler)
    *unknown, fails, _ = dequeue(limit=4)
    defer_unknown(unknown, errors=[{"type": "django_pgqueue.exceptions.UnknownHandler"}] * 2)
    retry(fails, errors=[{"type": "Oops"}], delays=[timedelta(minutes=1)])
    [row] = health("default")
    assert (row.scheduled, row.unknown_handler) == (3, 2)


def test_messages_that_wait_for_others_are_counted():
    first = enqueue("h")
    for delay in (None, timedelta(minutes=1)):
        enqueue("h", after=[first], delay=delay)
    enqueue("h", delay=timedelta(minutes=1))
    [row] = health("default")
    assert (row.ready, row.scheduled, row.blocked) == (1, 3, 2)
