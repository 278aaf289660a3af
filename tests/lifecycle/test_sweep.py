from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest

from django_pgqueue import channel_pause, channel_set, dequeue, enqueue, sweep
from django_pgqueue.lifecycle.upkeep import SweepCounts
from django_pgqueue.models import Message
from tests.support.messages import lease_messages, live
from tests.support.moments import expire, pass_time
from tests.support.sql import sql

pytestmark = pytest.mark.django_db


leased = partial(lease_messages, worker="worker 7")


def test_an_expired_lease_goes_through_the_retry_policy():
    [delivery] = leased(backoff=timedelta(minutes=1))
    expire(delivery)
    assert sweep() == SweepCounts(retried=1, poisoned=0, cancelled=0, promoted=0, not_picked_up=0, resumed=0)
    assert live(delivery.id, "status", "lease_token", "worker") == (Message.Status.SCHEDULED, None, None)
    pass_time(minutes=1)
    [again] = dequeue()
    assert (again.id, again.attempt) == (delivery.id, 2)


def test_it_sweeps_a_part_at_a_time():
    deliveries = leased(5)
    expire(*deliveries)
    assert [sweep(2).retried for _ in range(4)] == [2, 2, 1, 0]


def test_it_promotes_what_is_due():
    sent = enqueue("h", delay=timedelta(hours=1))
    assert sweep().promoted == 0
    pass_time(hours=1)
    assert sweep().promoted == 1
    assert live(sent.id, "status") == Message.Status.READY
    assert len(dequeue()) == 1


@pytest.mark.django_db(transaction=True)
def test_two_sweeps_at_once_share_the_work(connect):
    deliveries = leased(4)
    expire(*deliveries)
    other = connect()
    [(retried,)] = other.execute("SELECT retried FROM pgqueue_sweep(2)").fetchall()
    assert retried == 2
    assert sweep().retried == 2
    other.commit()
    assert all(live(delivery.id, "jsonb_array_length(errors)") == 1 for delivery in deliveries)


# The server log.


def test_the_server_log_says_that_leases_expired(server_log: list[str]):
    deliveries = leased(2)
    expire(*deliveries)
    sweep()
    [warning] = server_log
    assert "the leases of 2 message(s) expired" in warning
    assert "2 to be retried, 0 dead-lettered" in warning
    assert all(str(delivery.id) in warning for delivery in deliveries)


def test_warnings_are_held_back_for_ten_seconds(server_log: list[str]):
    for delivery in leased(2):
        expire(delivery)
        assert sweep().retried == 1
    assert len(server_log) == 1
    sql("SELECT setval('pgqueue_warned_lease_expired', last_value - 10) FROM pgqueue_warned_lease_expired")
    enqueue("h")
    expire(*dequeue())
    sweep()
    assert len(server_log) == 2


# Queues without a worker.


def test_a_message_that_is_not_picked_up_is_in_the_server_log(server_log: list[str]):
    channel_set(channel="default", queue="emails")
    sent = enqueue("h", queue="emails")
    enqueue("h")
    pass_time(seconds=59)
    assert sweep().not_picked_up == 0
    dequeue()
    pass_time(seconds=1)
    assert sweep().not_picked_up == 1
    [warning] = server_log
    assert 'queue "emails" is not picked up' in warning
    assert f"message {sent.id} " in warning


def test_each_queue_is_complained_about_once_in_ten_seconds(server_log: list[str]):
    enqueue("h")
    pass_time(minutes=2)
    sweep()
    channel_set(channel="default", queue="emails")
    enqueue("h", queue="emails")
    pass_time(minutes=2)
    sql("UPDATE pgqueue_queue_warning SET warned_at = clock_timestamp()")
    assert sweep().not_picked_up == 2
    assert [warning.split('"')[1] for warning in server_log] == ["default", "emails"]
    assert sweep().not_picked_up == 2
    assert len(server_log) == 2
    for wrong in (-11, 3600):
        sql("UPDATE pgqueue_queue_warning SET warned_at = clock_timestamp() + %s * interval '1 second'", wrong)
        server_log.clear()
        sweep()
        assert len(server_log) == 2


def test_the_setting_says_how_long_is_too_long(settings, server_log: list[str]):
    enqueue("h")
    pass_time(minutes=30)
    settings.DJANGO_PGQUEUE = {"WAITING_WARNING": timedelta(hours=1)}
    assert sweep().not_picked_up == 0
    settings.DJANGO_PGQUEUE = {"WAITING_WARNING": None}
    assert sweep().not_picked_up == 0
    settings.DJANGO_PGQUEUE = {"WAITING_WARNING": timedelta(minutes=20)}
    assert sweep().not_picked_up == 1


def test_channels_that_wait_on_purpose_are_not_complained_about(server_log: list[str]):
    channel_set(channel="paused")
    channel_set(channel="busy", max_concurrency=1)
    for name in ("paused", "busy", "busy"):
        enqueue("h", channel=name)
    channel_pause(channel="paused")
    assert len(dequeue(limit=10, lease=timedelta(hours=1))) == 1
    pass_time(minutes=2)
    assert sweep().not_picked_up == 0
    assert server_log == []


def test_a_channel_whose_rate_lets_messages_go_is_not_complained_about() -> None:
    """Most of its messages wait for long; the oldest one waits for the next token."""
    channel_set(channel="slow", rate="20/m")
    for _ in range(3):
        enqueue("h", channel="slow")
    pass_time(minutes=2)
    assert sweep().not_picked_up == 1
    assert len(dequeue()) == 1
    assert sweep().not_picked_up == 0
    pass_time(minutes=2)
    assert sweep().not_picked_up == 1, "no worker takes them any more"
