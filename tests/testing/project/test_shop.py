"""The same test with each kind of test case; several times, so that every process has some."""

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test import TestCase, TransactionTestCase
from django.utils import timezone

from django_pgqueue import channel_set, complete, dequeue, enqueue
from django_pgqueue.models import ArchivedMessage
from django_pgqueue.testing import assert_enqueued, drain, freeze_clock

NEW_YEAR = datetime(2030, 1, 1, tzinfo=UTC)


def confirmed(name):
    """This test sees only its own messages, also after others."""
    channel_set(channel="small", max_size=2)
    enqueue("shop.confirm", {"order": name}, channel="small")
    enqueue("shop.confirm", {"order": f"{name} too"}, channel="small", delay=timedelta(hours=1))
    assert_enqueued("shop.confirm", {"order": name}, count=1)
    assert drain().counts == {"completed": 2}
    assert drain(with_scheduled=True).counts == {"completed": 2}
    assert Group.objects.count() == 2
    assert ArchivedMessage.objects.count() == 4


def frozen(clock):
    enqueue("shop.ship", {"order": "none"}, delay=timedelta(days=1))
    assert len(drain()) == 0
    clock.tick(timedelta(days=1))
    [delivery] = dequeue()
    assert delivery.dequeue_at == clock.now == timezone.now()
    complete(delivery)


class PlainTest(TestCase):
    def test_one(self):
        assert connection.in_atomic_block
        confirmed("one")

    def test_two(self):
        confirmed("one")

    def test_clock(self):
        with freeze_clock(NEW_YEAR) as clock:
            frozen(clock)

    def test_settling_by_hand(self):
        enqueue("shop.ship")
        complete(dequeue())


class CommittingTest(TransactionTestCase):
    def test_one(self):
        assert not connection.in_atomic_block
        confirmed("one")

    def test_two(self):
        confirmed("one")


@pytest.mark.parametrize("number", range(2))
def test_fixtures(pgqueue_drain, pgqueue_enqueued, number):
    enqueue("shop.confirm", {"order": "one"})
    assert [message.payload for message in pgqueue_enqueued()] == [{"order": "one"}]
    assert len(pgqueue_drain()) == 2
    assert connection.in_atomic_block


@pytest.mark.parametrize("number", range(2))
def test_fixtures_that_commit(transactional_db, pgqueue_drain, number):
    assert not connection.in_atomic_block
    confirmed("one")


def test_the_clock(pgqueue_clock):
    assert connection.in_atomic_block
    frozen(pgqueue_clock)
