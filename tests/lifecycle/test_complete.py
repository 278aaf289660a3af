from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgqueue import channel_set, complete, dequeue, enqueue, sweep
from django_pgqueue.exceptions import InvalidMessage, LeaseLost, PartitionMissing
from django_pgqueue.models import ArchivedMessage, Channel
from tests.support.messages import lease_messages, live, places
from tests.support.moments import expire
from tests.support.refusals import refused, rolled_back
from tests.support.sql import sql

pytestmark = pytest.mark.django_db


def test_a_completed_message_is_in_the_archive_as_it_was():
    sent = enqueue(
        "greet",
        {"n": 1},
        body=b"\xff",
        headers={"x": 1},
        priority=4,
        dedupe_key="k",
        max_attempts=3,
        backoff=timedelta(seconds=1),
    )
    [delivery] = dequeue(worker="me")
    created, due, leased_at = live(sent.id, "created_at", "dequeue_at", "leased_at")
    assert complete(delivery) == {sent.id}
    assert places(sent.id) == ["archive"]
    kept = ArchivedMessage.objects.get(pk=sent.id)
    assert (kept.queue, kept.channel, kept.handler, kept.payload, bytes(kept.body)) == (
        "default",
        "default",
        "greet",
        {"n": 1},
        b"\xff",
    )
    assert (kept.headers, kept.priority, kept.dedupe_key, kept.worker, kept.outcome) == (
        {"x": 1},
        4,
        "k",
        "me",
        "completed",
    )
    assert (kept.attempts, kept.max_attempts, kept.result, kept.state, kept.errors) == (1, 3, None, None, None)
    assert (kept.created_at, kept.dequeue_at, kept.leased_at) == (created, due, leased_at)
    assert kept.archived_at >= kept.leased_at


def test_results_stay_with_their_messages():
    deliveries = lease_messages(3)
    complete(reversed(deliveries), results=[{"n": delivery.payload} for delivery in reversed(deliveries)])
    found = {message.payload: message.result for message in ArchivedMessage.objects.all()}
    assert found == {n: {"n": n} for n in range(3)}


@pytest.mark.parametrize("result", [{1}, "a\0b", float("nan"), "\ud800"], ids=["set", "nul", "nan", "surrogate"])
def test_a_result_that_is_not_json_changes_nothing(result: object):
    [delivery] = lease_messages()
    with refused(InvalidMessage, "result"):
        complete(delivery, results=[result])
    assert places(delivery.id) == ["live"]


# Fencing.


def test_the_same_delivery_twice_in_one_call_is_completed_once():
    [delivery] = lease_messages()
    assert complete([delivery, delivery]) == {delivery.id}
    assert places(delivery.id) == ["archive"]


def test_a_lease_that_expired_and_was_not_swept_can_still_complete():
    [delivery] = lease_messages()
    expire(delivery)
    assert complete(delivery) == {delivery.id}


# In the handler's own transaction.


@pytest.mark.django_db(transaction=True)
def test_a_lost_lease_rolls_back_what_the_handler_did():
    [delivery] = lease_messages()
    expire(delivery)
    sweep()
    with refused(LeaseLost):
        Channel.objects.create(name="an effect of the handler")
        complete(delivery)
    assert not Channel.objects.filter(name="an effect of the handler").exists()


@pytest.mark.django_db(transaction=True)
def test_a_rolled_back_completion_leaves_the_lease():
    [delivery] = lease_messages()
    with rolled_back():
        complete(delivery)
    assert places(delivery.id) == ["live"]
    complete(delivery)
    assert places(delivery.id) == ["archive"]


# The archive.


def test_without_a_partition_for_today_nothing_is_lost():
    channel_set(channel="default", max_concurrency=1)
    [delivery] = lease_messages()
    for (partition,) in sql(
        "SELECT c.relname FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid"
        " WHERE i.inhparent = 'pgqueue_archived_message'::regclass"
    ):
        sql(f"DROP TABLE {partition}")
    with refused(PartitionMissing, "no partition") as raised:
        complete(delivery)
    assert "pgqueue_prune" in raised.value.hint
    assert places(delivery.id) == ["live"]
    assert live(delivery.id, "lease_token") == delivery.token
    sql("SELECT pgqueue_prune()")
    assert complete(delivery) == {delivery.id}
    assert places(delivery.id) == ["archive"]


def test_a_message_whose_channel_was_deleted_is_archived_all_the_same():
    [delivery] = lease_messages()
    sql("DELETE FROM pgqueue_channel")
    assert complete(delivery) == {delivery.id}
    assert places(delivery.id) == ["archive"]
