from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgqueue import (
    NewMessage,
    channel_set,
    complete,
    dead_letter,
    dequeue,
    enqueue,
    enqueue_many,
    pop,
    queue_drop,
    queue_set,
    redrive,
    sweep,
)
from django_pgqueue.exceptions import ChannelNotFound, ChannelReleased, QueueNotEmpty
from django_pgqueue.lifecycle.queues import QueueDropped
from django_pgqueue.models import ArchivedMessage, Channel, DeadLetter, Message, Queue, Schedule
from tests.support.messages import places
from tests.support.refusals import refused
from tests.support.sessions import Connect
from tests.support.sql import sql

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _channels() -> None:
    for name in "abc":
        channel_set(channel=name, queue="mails")


def send(channel: str = "a", **more: object) -> int | None:
    return enqueue("h", channel=channel, queue="mails", **more).id  # type: ignore[arg-type]


def test_an_empty_queue_goes_with_its_channels_and_schedules():
    Schedule.objects.create(name="nightly", handler="h", queue="mails", channel="a", cron="0 4 * * *")
    kept = Schedule.objects.create(name="other", handler="h", cron="0 4 * * *")
    Queue.objects.create(name="mails", events=True)
    assert queue_drop(queue="mails") == QueueDropped(True, 0, 3, 1)
    assert not Schedule.objects.filter(queue="mails").exists()
    assert Schedule.objects.filter(pk=kept.pk).exists()
    assert not Queue.objects.exists()
    with refused(ChannelReleased):
        send()
    assert Channel.objects.filter(queue="default", released_at=None).exists()


@pytest.mark.django_db(transaction=True)
def test_the_sweep_removes_the_rows_of_its_channels():
    queue_drop(queue="mails")
    sweep()
    assert not Channel.objects.filter(queue="mails").exists()
    with refused(ChannelNotFound):
        queue_drop(queue="mails")


def test_a_queue_with_waiting_messages_is_dropped_only_with_purge():
    ids = [send("a"), send("b", delay=timedelta(hours=1))]
    with refused(QueueNotEmpty, "wait.*purge=True.*--purge"):
        queue_drop(queue="mails")
    assert not Queue.objects.exists()
    assert Channel.objects.filter(queue="mails", released_at=None).count() == 3
    assert queue_drop(queue="mails", purge=True) == QueueDropped(True, 2, 3, 0)
    assert [places(pk) for pk in ids] == [["archive"], ["archive"]]


@pytest.mark.parametrize("purge", [False, True])
def test_leases_are_reason_enough_whatever_is_said(purge: bool):
    send()
    [held] = dequeue(queue="mails")
    with refused(QueueNotEmpty, "leases"):
        queue_drop(queue="mails", purge=purge)
    assert Channel.objects.filter(queue="mails", released_at=None).count() == 3
    complete(held)
    assert queue_drop(queue="mails", purge=purge).done


def test_a_large_queue_goes_in_parts_and_nothing_is_delivered_meanwhile():
    enqueue_many(NewMessage(handler="h", channel=name, queue="mails") for name in "aabbc")
    first = queue_drop(queue="mails", purge=True, limit=2)
    assert (first, first.blocked) == (QueueDropped(False, 2, 2, 0), False)
    assert dequeue(queue="mails", limit=9) == []
    assert queue_drop(queue="mails", purge=True, limit=2) == QueueDropped(False, 2, 1, 0)
    assert queue_drop(queue="mails", purge=True, limit=2) == QueueDropped(True, 1, 0, 0)
    assert Message.objects.count() == 0
    assert not Queue.objects.exists()


def test_the_archive_and_the_dead_letters_stay():
    done, dead = send(), send("b")
    for delivery in dequeue(queue="mails", limit=2):
        if delivery.id == done:
            complete(delivery)
        else:
            dead_letter(delivery, reason="refused")
    assert queue_drop(queue="mails").done
    assert ArchivedMessage.objects.filter(pk=done).exists()
    assert DeadLetter.objects.filter(pk=dead, queue="mails").exists()
    with refused(ChannelReleased):
        redrive(dead)
    channel_set(channel="b", queue="mails")
    assert redrive(dead)


@pytest.mark.django_db(transaction=True)
def test_messages_that_an_open_transaction_takes_or_brings_are_not_lost(connect):
    taken = send()
    worker, producer = connect(), connect()
    worker.execute("SELECT * FROM pgqueue_dequeue('mails')")
    [(brought,)] = producer.execute("SELECT id FROM pgqueue_enqueue('h', p_channel => 'b', p_queue => 'mails')")
    assert queue_drop(queue="mails", purge=True) == QueueDropped(False, 0, 3, 0)
    again = queue_drop(queue="mails", purge=True)
    assert (again, again.blocked) == (QueueDropped(False, 0, 0, 0), True)
    worker.commit()
    with refused(QueueNotEmpty, "leases"):
        queue_drop(queue="mails", purge=True)
    sql("UPDATE pgqueue_message SET status = 1, lease_token = NULL, lease_expires_at = NULL WHERE id = %s", taken)
    assert queue_drop(queue="mails", purge=True) == QueueDropped(True, 1, 0, 0)
    producer.commit()
    assert places(brought) == ["live"]
    assert [delivery.id for delivery in dequeue(queue="mails")] == [brought]


def test_a_drop_with_null_changes_nothing():
    channel_set(queue="q", channel="c")
    enqueue("h", queue="q", channel="c")
    [(answer,)] = sql("SELECT outcome FROM pgqueue_queue_drop('q', NULL)")
    assert answer == "invalid"
    assert not Channel.objects.filter(queue="q").exclude(released_at=None).exists()


@pytest.mark.django_db(transaction=True)
def test_a_late_message_of_a_dropped_queue_is_archived_by_the_setting_of_the_queue(connect: Connect):
    channel_set(queue="q", channel="c")
    queue_set(queue="q", archive="none")
    slow = connect()
    slow.execute("SELECT pgqueue_enqueue('h', '{\"secret\": 1}', p_queue => 'q', p_channel => 'c')")
    queue_drop(queue="q", purge=True)
    slow.commit()
    assert len(pop(queue="q")) == 1
    assert not ArchivedMessage.objects.exists()
