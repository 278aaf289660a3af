from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import DatabaseError, transaction

from django_pgqueue import cancel, complete, dequeue, enqueue, heartbeat, sweep
from django_pgqueue.exceptions import LeaseLost
from django_pgqueue.models import ArchivedMessage, DeadLetter
from tests.support.messages import lease_messages, live
from tests.support.moments import a_moment_of_the_database, expire, pass_time
from tests.support.refusals import refused
from tests.support.sql import sql, value

pytestmark = pytest.mark.django_db


def test_a_lease_is_extended_from_now():
    [delivery] = lease_messages()
    pass_time(seconds=10)
    before = a_moment_of_the_database()
    assert heartbeat(delivery, lease=timedelta(minutes=1)) == {delivery.id: False}
    assert (
        before + timedelta(minutes=1)
        <= live(delivery.id, "lease_expires_at")
        <= a_moment_of_the_database() + timedelta(minutes=1)
    )


def test_the_setting_says_for_how_long(settings):
    settings.DJANGO_PGQUEUE = {"LEASE": timedelta(hours=3)}
    [delivery] = lease_messages()
    heartbeat(delivery)
    assert live(delivery.id, "lease_expires_at > clock_timestamp() + interval '2 hours 59 minutes'")


@pytest.mark.django_db(transaction=True)
def test_it_counts_from_the_clock_and_not_from_the_start_of_the_transaction():
    [delivery] = lease_messages()
    with transaction.atomic():
        value("SELECT now() FROM pg_sleep(0.05)")
        heartbeat(delivery, lease=timedelta(milliseconds=20))
        assert live(delivery.id, "lease_expires_at > now() + interval '60 milliseconds'")


def test_a_heartbeat_keeps_a_message_from_the_sweep():
    beating, silent = lease_messages(2)
    expire(beating, silent)
    heartbeat(beating)
    assert sweep().retried == 1
    assert heartbeat([beating, silent], skip_lost=True) == {beating.id: False}


def test_it_is_a_function_of_the_database_too():
    [delivery] = lease_messages()
    arguments = ([delivery.id], [delivery.token])
    assert sql("SELECT * FROM pgqueue_heartbeat(%s, %s, p_lease => '1 hour')", *arguments) == [(delivery.id, False)]
    assert live(delivery.id, "lease_expires_at > clock_timestamp() + interval '59 minutes'")
    # A lease without an end would never be swept.
    with refused(DatabaseError):
        sql("SELECT pgqueue_heartbeat(%s, %s, p_lease => NULL)", *arguments)


def test_a_lease_of_zero_gives_the_message_back():
    first, second = lease_messages(2)
    assert heartbeat([first, second], lease=timedelta(0)) == {first.id: False, second.id: False}
    again = dequeue(limit=2)
    assert [(delivery.id, delivery.attempt) for delivery in again] == [(first.id, 2), (second.id, 2)]
    with refused(LeaseLost):
        complete(first)


def test_a_lease_of_zero_ends_what_is_cancelled():
    [delivery] = lease_messages()
    cancel([delivery.id])
    assert heartbeat(delivery, lease=timedelta(0)) == {delivery.id: True}
    assert ArchivedMessage.objects.get(pk=delivery.id).outcome == "cancelled"


def test_a_lease_of_zero_cannot_give_a_message_back_for_ever():
    enqueue("h", max_attempts=2)
    for _ in range(2):
        [delivery] = dequeue()
        assert heartbeat(delivery, lease=timedelta(0)) == {delivery.id: False}
    assert dequeue() == []
    assert DeadLetter.objects.get().reason == "deferred"
