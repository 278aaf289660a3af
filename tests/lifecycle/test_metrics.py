from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgqueue import (
    channel_purge,
    channel_set,
    complete,
    dead_letter,
    dequeue,
    enqueue,
    metrics,
    pop,
    prune,
    retry,
)
from django_pgqueue.lifecycle.figures import ChannelMetrics
from tests.support.moments import pass_time
from tests.support.sql import sql

pytestmark = pytest.mark.django_db


def lengths(found: ChannelMetrics) -> tuple[int, ...]:
    return found.ready, found.leased, found.scheduled, found.dead


def test_an_empty_channel_counts_nothing():
    [found] = metrics()
    assert found == ChannelMetrics("default", "default", 0, 0, 0, 0, 0, 0, None, None, 0)


def test_every_state_is_counted():
    for _ in range(6):
        enqueue("h")
    enqueue("h", delay=timedelta(hours=1))
    one, two, *_ = dequeue(limit=4)
    retry(one, errors=[{}], delays=[timedelta(hours=1)])
    dead_letter(two, reason="refused")
    [found] = metrics()
    assert lengths(found) == (2, 2, 2, 1)
    assert found.total == 7


def test_ages_are_those_of_the_ready_messages():
    enqueue("h")
    pass_time(minutes=10)
    enqueue("h")
    enqueue("h", delay=timedelta(hours=1))
    [found] = metrics()
    assert timedelta(minutes=10) <= found.oldest_age < timedelta(minutes=11)
    assert timedelta(0) <= found.newest_age < timedelta(minutes=1)
    dequeue(limit=2)
    [found] = metrics()
    assert (found.oldest_age, found.newest_age) == (None, None)


def test_the_total_counts_every_message_ever_enqueued_wherever_it_is():
    for _ in range(6):
        enqueue("h")
    complete(dequeue(limit=2))
    pop()
    [delivery] = dequeue()
    dead_letter(delivery, reason="refused")
    channel_purge(channel="default", limit=1)
    [found] = metrics()
    assert lengths(found) == (1, 0, 0, 1)
    assert found.total == 6


def test_the_total_stays_true_when_retention_drops_a_partition(settings):
    settings.DJANGO_PGQUEUE = {"ARCHIVE_RETENTION": timedelta(days=30), "DEAD_LETTER_RETENTION": timedelta(days=30)}
    for _ in range(4):
        enqueue("h")
    complete(dequeue(limit=2))
    dead_letter(dequeue(), reason="refused")
    sql("""
        CREATE TABLE pgqueue_archived_message_20200101 PARTITION OF pgqueue_archived_message
        FOR VALUES FROM ('2020-01-01 00:00+00') TO ('2020-01-02 00:00+00')""")
    sql("UPDATE pgqueue_archived_message SET archived_at = '2020-01-01 12:00+00'")
    sql("UPDATE pgqueue_dead_letter SET dead_at = '2020-01-01 12:00+00'")
    counts = prune()
    assert (counts.partitions_dropped, counts.dead_letters_deleted) == (1, 1)
    assert sql("SELECT 1 FROM pgqueue_archived_message") == []
    [found] = metrics()
    assert lengths(found) == (1, 0, 0, 0)
    assert found.total == 4


def test_totals_can_be_left_out():
    enqueue("h")
    [found] = metrics(totals=False)
    assert (found.ready, found.total) == (1, None)


def test_they_come_for_all_or_a_queue_or_a_channel():
    channel_set(channel="a", queue="emails")
    channel_set(channel="b", queue="emails")
    channel_set(channel="a")

    def names(**which: str) -> list[tuple[str, str]]:
        return [(found.queue, found.channel) for found in metrics(**which)]

    assert names() == [("default", "a"), ("default", "default"), ("emails", "a"), ("emails", "b")]
    assert names(queue="emails") == [("emails", "a"), ("emails", "b")]
    assert names(channel="a") == [("default", "a"), ("emails", "a")]
    assert names(queue="emails", channel="b") == [("emails", "b")]
    assert names(queue="nowhere") == []
