from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgqueue import (
    channel_set,
    complete,
    defer,
    dequeue,
    enqueue,
    heartbeat,
    peek,
    pop,
    queue_pause,
    queue_resume,
    sweep,
)
from django_pgqueue.models import Queue
from tests.support.moments import pass_time
from tests.support.sql import sql

pytestmark = pytest.mark.django_db


def test_nothing_of_a_paused_queue_is_delivered():
    channel_set(channel="acme", max_concurrency=2)
    enqueue("h")
    enqueue("h", channel="acme")
    queue_pause()
    enqueue("h", "while it is paused")
    assert dequeue(limit=10) == []
    assert pop(limit=10) == []
    queue_resume()
    assert len(dequeue(limit=10)) == 3


def test_other_queues_go_on():
    channel_set(channel="default", queue="emails")
    enqueue("h", queue="emails")
    queue_pause("default")
    assert len(dequeue("emails")) == 1


def test_its_row_says_since_when_and_why():
    queue_pause(reason="the database moves tonight")
    before = Queue.objects.get(name="default")
    assert (before.paused_at is not None, before.pause_reason) == (True, "the database moves tonight")
    queue_pause(reason="it takes longer")
    again = Queue.objects.get(name="default")
    assert (again.paused_at, again.pause_reason) == (before.paused_at, "it takes longer")
    queue_resume()
    after = Queue.objects.get(name="default")
    assert (after.paused_at, after.pause_reason) == (None, "")


def test_messages_that_were_leased_before_the_pause_are_settled_as_usual():
    for _ in range(2):
        enqueue("h")
    first, second = dequeue(limit=2)
    queue_pause()
    heartbeat([first, second])
    assert complete(first) == {first.id}
    defer(second)
    assert dequeue() == []
    queue_resume()
    assert [delivery.id for delivery in dequeue()] == [second.id]


def test_scheduled_messages_become_ready_and_wait():
    message = enqueue("h", delay=timedelta(minutes=1))
    queue_pause()
    pass_time(minutes=2)
    assert dequeue() == []
    assert [delivery.id for delivery in peek()] == [message.id]
    queue_resume()
    assert [delivery.id for delivery in dequeue()] == [message.id]


def test_no_warning_says_that_a_paused_queue_is_not_picked_up(server_log):
    enqueue("h")
    queue_pause()
    pass_time(minutes=5)
    assert sweep().not_picked_up == 0
    assert server_log == []
    queue_resume()
    assert sweep().not_picked_up == 1


def test_a_queue_with_a_row_of_its_own_can_be_paused_before_its_first_channel():
    Queue.objects.create(name="new")
    queue_pause("new")
    channel_set(channel="default", queue="new")
    enqueue("h", queue="new")
    assert dequeue("new") == []


@pytest.mark.django_db(transaction=True)
def test_resume_wakes_sleeping_workers(connect):
    listener = connect(autocommit=True)
    listener.execute("LISTEN pgqueue")
    queue_pause()
    enqueue("h")
    sql("SELECT pgqueue_wait('worker 7', '{default}', '1 hour')")
    list(listener.notifies(timeout=0.2, stop_after=1))
    queue_resume()
    [notification] = listener.notifies(timeout=200, stop_after=1)
    assert notification.payload == "default"
