from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgqueue import channel_release, channel_set, complete, dead_letter, dequeue, enqueue, prune, queue_set
from django_pgqueue.lifecycle.upkeep import PruneCounts
from django_pgqueue.models import ArchivedMessage, Channel, DeadLetter, Worker
from tests.lifecycle.conftest import partition_of
from tests.support.moments import pass_time
from tests.support.sql import sql, value

pytestmark = pytest.mark.django_db

NOTHING = PruneCounts(
    partitions_made=0, partitions_dropped=0, dead_letters_deleted=0, channels_removed=0, partitions_kept=0
)


def partitions() -> list[str]:
    found = sql(
        "SELECT c.relname FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid"
        " WHERE i.inhparent = 'pgqueue_archived_message'::regclass"
    )
    return sorted(name for (name,) in found)


def test_partitions_are_made_ahead(settings):
    settings.DJANGO_PGQUEUE = {"PARTITIONS_AHEAD": 10}
    assert prune().partitions_made == 3
    assert prune().partitions_made == 0
    assert len(partitions()) == 11
    days = [name[-8:] for name in partitions()]
    assert days[0] == value("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')")
    assert days[-1] == value("SELECT to_char((now() AT TIME ZONE 'UTC') + interval '10 days', 'YYYYMMDD')")


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Auckland", "America/New_York"])
def test_the_days_are_those_of_utc_whatever_the_zone_of_the_session(zone: str):
    for name in partitions():
        sql(f"DROP TABLE {name}")
    sql("SELECT set_config('timezone', %s, true)", zone)
    prune()
    enqueue("h")
    complete(dequeue())
    [(held,)] = sql("SELECT c.relname FROM pgqueue_archived_message AS a JOIN pg_class AS c ON c.oid = a.tableoid")
    assert held == partitions()[0]
    assert held[-8:] == value("SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYYMMDD')")


def test_partitions_past_retention_are_dropped_and_the_others_stay(settings):
    settings.DJANGO_PGQUEUE = {"ARCHIVE_RETENTION": timedelta(days=3)}
    old, last, kept = partition_of(10), partition_of(5), partition_of(3)
    assert prune().partitions_dropped == 2
    assert kept in partitions()
    assert not {old, last} & set(partitions())


def test_no_message_is_dropped_before_its_time(settings):
    settings.DJANGO_PGQUEUE = {"ARCHIVE_RETENTION": timedelta(days=3)}
    partition_of(3)
    partition_of(2)
    enqueue("h")
    complete(dequeue())
    sql("UPDATE pgqueue_archived_message SET archived_at = clock_timestamp() - interval '71 hours 59 minutes'")
    assert prune().partitions_dropped == 0
    assert ArchivedMessage.objects.exists()


def test_none_keeps_everything(settings):
    settings.DJANGO_PGQUEUE = {"ARCHIVE_RETENTION": None, "DEAD_LETTER_RETENTION": None}
    kept = partition_of(5000)
    enqueue("h")
    dead_letter(dequeue(), reason="refused")
    sql("UPDATE pgqueue_dead_letter SET dead_at = '1999-01-01'")
    assert prune() == NOTHING
    assert kept in partitions()
    assert DeadLetter.objects.exists()


def test_dead_letters_past_retention_are_deleted(settings):
    settings.DJANGO_PGQUEUE = {"DEAD_LETTER_RETENTION": timedelta(days=90)}
    enqueue("h")
    enqueue("h")
    dead_letter(dequeue(limit=2), reason="refused")
    pass_time(days=89)
    assert prune().dead_letters_deleted == 0
    pass_time(days=1)
    assert prune().dead_letters_deleted == 2
    assert not DeadLetter.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_released_channel_goes_when_it_is_empty():
    channel_set(channel="leaving")
    enqueue("h", channel="leaving")
    channel_release(channel="leaving")
    assert prune().channels_removed == 0
    complete(dequeue())
    assert prune().channels_removed == 1
    assert list(Channel.objects.values_list("name", flat=True)) == ["default"]


@pytest.mark.django_db(transaction=True)
def test_only_one_prunes_at_a_time_and_no_other_waits(connect, settings):
    settings.DJANGO_PGQUEUE = {"PARTITIONS_AHEAD": 7}
    other = connect()
    other.execute("SELECT pgqueue_prune()")
    assert prune() == NOTHING
    other.rollback()


def test_a_worker_that_has_been_silent_for_a_day_is_forgotten():
    for name in ("dead", "alive"):
        Worker.objects.create(name=name, hostname="host", pid=1, queues=["default"], concurrency=4, version="1")
    sql("UPDATE pgqueue_worker SET heartbeat_at = now() - interval '25 hours' WHERE name = 'dead'")
    prune()
    assert [worker.name for worker in Worker.objects.all()] == ["alive"]


def test_messages_that_were_not_archived_count_in_the_total_without_maintenance_that_measures():
    queue_set(archive="none")
    for _ in range(3):
        enqueue("h")
    complete(dequeue(limit=2))
    sql("UPDATE pgqueue_unarchived SET settled_at = settled_at - interval '61 minutes'")
    complete(dequeue())
    prune()
    assert sql("SELECT queue, channel, messages FROM pgqueue_unarchived_total") == [("default", "default", 2)]
    assert value("SELECT sum(cardinality(attempts)) FROM pgqueue_unarchived") == 1
    sql("UPDATE pgqueue_unarchived SET settled_at = settled_at - interval '61 minutes'")
    prune()
    assert sql("SELECT messages FROM pgqueue_unarchived_total") == [(3,)]
    assert value("SELECT count(*) FROM pgqueue_unarchived") == 0
