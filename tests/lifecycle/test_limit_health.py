from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgqueue import (
    channel_set,
    complete,
    dequeue,
    enqueue,
    enqueue_many,
    limit_pause,
    limit_set,
    metrics,
    queue_pause,
    queue_set,
)
from django_pgqueue.delivery import NewMessage
from django_pgqueue.lifecycle.figures import LimitHealth, health, limit_health
from tests.support.moments import pass_time
from tests.support.sql import sql, value

pytestmark = pytest.mark.django_db
# Ready, leased, scheduled, waiting for a limit, waiting for their order key.
COUNTS = (1, 1, 1, 3, 2)


def only(**options: int) -> LimitHealth:
    [row] = limit_health(**options)
    return row


def test_a_limit_that_no_message_uses() -> None:
    limit_set("stripe", max_concurrency=2, max_cost=10, release_interval=timedelta(hours=1), release_burst=3)
    assert only() == LimitHealth("shared", "stripe", 0, 2, 0, 10, 3.0, 0, None, None, True)


def test_a_limit_whose_places_are_taken() -> None:
    limit_set("stripe", max_concurrency=2)
    for _ in range(5):
        enqueue("h", limits=["stripe"], cost=3)
    pass_time(minutes=10)
    held = dequeue(limit=10)
    row = only()
    assert (row.places, row.cost, row.waiting, row.why, row.complete) == (2, 6, 3, "full", True)
    assert timedelta(minutes=10) <= row.oldest_age < timedelta(minutes=11)
    complete(held)
    assert (only().places, only().waiting, only().why) == (0, 3, None)


def test_a_limit_whose_cost_is_in_use() -> None:
    limit_set("memory", max_cost=10)
    for cost in (8, 5):
        enqueue("h", limits=["memory"], cost=cost)
    dequeue(limit=10)
    assert (only().places, only().cost, only().waiting, only().why) == (1, 8, 1, "full")


def test_a_limit_without_a_token() -> None:
    limit_set("openai", release_interval=timedelta(hours=1), release_burst=10)
    for _ in range(3):
        enqueue("h", limits=["openai"], cost=8)
    dequeue(limit=10)
    row = only()
    assert (row.waiting, row.why, round(row.tokens)) == (2, "rate", 2)
    assert row.max_concurrency is None


def test_a_limit_that_is_paused_says_so_and_counts_its_places() -> None:
    limit_set("stripe", max_concurrency=2)
    for _ in range(2):
        enqueue("h", limits=["stripe"])
    dequeue()
    limit_pause("stripe", reason="down")
    row = only()
    assert (row.places, row.waiting, row.why) == (1, 1, "paused")


def test_the_oldest_of_all_channels_and_priorities_counts() -> None:
    limit_set("stripe", max_concurrency=1)
    limit_pause("stripe", reason="down")
    channel_set(channel="b")
    enqueue("h", limits=["stripe"], channel="b", priority=-3)
    pass_time(minutes=10)
    enqueue("h", limits=["stripe"], priority=3)
    enqueue("h", limits=["stripe"], channel="b")
    assert only().oldest_age >= timedelta(minutes=10)


def test_more_messages_than_are_counted() -> None:
    limit_set("stripe", max_concurrency=1)
    limit_pause("stripe", reason="down")
    for _ in range(5):
        enqueue("h", limits=["stripe"])
    assert (only(most=5).waiting, only(most=5).complete) == (5, True)
    assert (only(most=4).waiting, only(most=4).complete) == (4, False)


def test_a_queue_at_its_max_concurrency() -> None:
    queue_set("default", max_concurrency=2)
    for _ in range(5):
        enqueue("h")
    assert only() == LimitHealth("queue", "default", 0, 2, None, None, None, 0, None, None, True)
    held = dequeue(limit=10)
    pass_time(minutes=10)
    row = only()
    assert (row.places, row.waiting, row.why) == (2, 3, "full")
    assert timedelta(minutes=10) <= row.oldest_age < timedelta(minutes=11)
    complete(held)
    assert (only().places, only().waiting, only().why) == (0, 0, None)


def test_a_queue_at_its_rate_and_a_paused_one() -> None:
    queue_set("default", rate="1/h burst 2")
    for _ in range(3):
        enqueue("h")
    assert (only().tokens, only().why) == (2.0, None)
    complete(dequeue(limit=10))
    assert (round(only().tokens), only().waiting, only().why) == (0, 1, "rate")
    queue_pause("default")
    assert only().why == "paused"


def test_a_message_that_waits_for_a_limit_or_its_key_is_counted_once_and_not_as_scheduled() -> None:
    limit_set("stripe", max_concurrency=1)
    limit_pause("stripe", reason="down")
    enqueue_many([NewMessage(handler="h", limits=["stripe"])] * 3)
    enqueue("h", delay=timedelta(hours=1))
    enqueue_many([NewMessage(handler="h", order_key="invoice-7")] * 3)
    assert len(dequeue(limit=2)) == 1
    enqueue("h")
    [queue] = health("default")
    [channel] = metrics(totals=True)
    for row in (queue, channel):
        assert (row.ready, row.leased, row.scheduled, row.waiting_for_limit, row.waiting_for_order_key) == COUNTS
    assert channel.total == sum(COUNTS)
    value("SELECT pgqueue_measure('0')::text")
    measured = sql(
        "SELECT channel, ready, leased, scheduled, waiting_for_limit, waiting_for_order_key FROM pgqueue_backlog "
        "ORDER BY channel"
    )
    assert measured == [("default", *COUNTS), (None, *COUNTS)]


def test_a_message_that_waits_for_others_is_counted_among_the_scheduled_ones_and_as_blocked() -> None:
    enqueue("h", after=[enqueue("h")])
    enqueue("h", delay=timedelta(hours=1))
    for [row] in (health("default"), metrics(totals=True)):
        assert (row.ready, row.scheduled, row.blocked) == (1, 2, 1)
    value("SELECT pgqueue_measure('0')::text")
    assert sql("SELECT channel, ready, scheduled, blocked FROM pgqueue_backlog ORDER BY channel") == [
        ("default", 1, 2, 1), (None, 1, 2, 1),
    ]  # fmt: skip


def test_the_blocks_that_it_reads_do_not_grow_with_the_messages_that_wait() -> None:
    limit_set("stripe", max_concurrency=1)
    limit_pause("stripe", reason="down")
    costs = []
    for count in (2_000, 20_000):
        sql(
            "INSERT INTO pgqueue_message (channel_id, handler, limits, status, waits_for)"
            " SELECT c.id, 'h', ARRAY[l.id], 3, l.id"
            " FROM pgqueue_channel AS c, pgqueue_limit AS l, generate_series(1, %s) AS n",
            count,
        )
        sql("ANALYZE pgqueue_message")
        found = 0
        for function in ("pgqueue_limit_health(100)", "pgqueue_health(NULL, 100)"):
            value(f"SELECT count(*) FROM {function}")
            [[plan]] = sql(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM {function}")
            found += plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"]
        costs.append(found)
    assert costs[1] < 2 * costs[0], costs
