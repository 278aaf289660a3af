from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import DatabaseError, transaction

from django_pgqueue import complete, dequeue, enqueue, heartbeat, sweep
from django_pgqueue.exceptions import InvalidMessage, LeaseLost
from tests.lifecycle.conftest import a_moment_of_the_database, expire, live, pass_time, refused, sql, value

pytestmark = pytest.mark.django_db


def leased(count: int = 1):
    for n in range(count):
        enqueue("h", n)
    return dequeue(limit=count)


def test_a_lease_is_extended_from_now():
    [delivery] = leased()
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
    [delivery] = leased()
    heartbeat(delivery)
    assert live(delivery.id, "lease_expires_at > clock_timestamp() + interval '2 hours 59 minutes'")


@pytest.mark.django_db(transaction=True)
def test_it_counts_from_the_clock_and_not_from_the_start_of_the_transaction():
    [delivery] = leased()
    with transaction.atomic():
        value("SELECT now() FROM pg_sleep(0.05)")
        heartbeat(delivery, lease=timedelta(milliseconds=20))
        assert live(delivery.id, "lease_expires_at > now() + interval '60 milliseconds'")


def test_a_heartbeat_keeps_a_message_from_the_sweep():
    beating, silent = leased(2)
    expire(beating, silent)
    heartbeat(beating)
    assert sweep().retried == 1
    assert heartbeat([beating, silent], skip_lost=True) == {beating.id: False}


def test_a_lost_lease_is_not_extended_and_is_named():
    kept, lost = leased(2)
    expire(lost)
    sweep()
    before = live(kept.id, "lease_expires_at")
    with refused(LeaseLost, "nothing was changed|Nothing was changed") as raised:
        heartbeat([kept, lost], lease=timedelta(hours=1))
    assert raised.value.ids == (lost.id,)
    assert live(kept.id, "lease_expires_at") == before


def test_a_forged_token_extends_nothing():
    [delivery] = leased()
    before = live(delivery.id, "lease_expires_at")
    assert heartbeat(replace(delivery, token=uuid4()), skip_lost=True) == {}
    assert heartbeat(replace(delivery, token=None), skip_lost=True) == {}
    assert live(delivery.id, "lease_expires_at") == before


def test_a_settled_message_has_no_lease():
    [delivery] = leased()
    complete(delivery)
    with refused(LeaseLost):
        heartbeat(delivery)


def test_nothing_is_nothing():
    assert heartbeat([]) == {}


@pytest.mark.parametrize("lease", [timedelta(0), timedelta(seconds=-5), 15, timedelta.max], ids=str)
def test_a_lease_that_is_no_lease_is_refused(lease: object):
    [delivery] = leased()
    with refused(InvalidMessage):
        heartbeat(delivery, lease=lease)


def test_it_is_a_function_of_the_database_too():
    [delivery] = leased()
    arguments = ([delivery.id], [delivery.token])
    assert sql("SELECT * FROM pgqueue_heartbeat(%s, %s, p_lease => '1 hour')", *arguments) == [(delivery.id, False)]
    assert live(delivery.id, "lease_expires_at > clock_timestamp() + interval '59 minutes'")
    # A lease without an end would never be swept.
    with refused(DatabaseError):
        sql("SELECT pgqueue_heartbeat(%s, %s, p_lease => NULL)", *arguments)
