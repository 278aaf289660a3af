"""Enqueue with a dedupe key, and into a channel that is full."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import DatabaseError, IntegrityError

from django_pgqueue import (
    channel_set,
    complete,
    dead_letter,
    dequeue,
    enqueue,
    retry,
)
from django_pgqueue.exceptions import ChannelFull
from django_pgqueue.models import Channel, Message
from tests.support.moments import pass_time
from tests.support.refusals import refused, rolled_back
from tests.support.sql import sql

pytestmark = pytest.mark.django_db


def test_a_live_duplicate_gives_the_id_that_is_there_and_says_so():
    first = enqueue("h", {"n": 1}, dedupe_key="invoice 7")
    again = enqueue("h", {"n": 2}, dedupe_key="invoice 7")
    assert (again.id, again.outcome, again.created) == (first.id, "duplicate", False)
    assert [delivery.payload for delivery in dequeue(limit=10)] == [{"n": 1}]


def test_a_key_is_taken_while_its_message_is_scheduled_leased_or_retried():
    sent = enqueue("h", dedupe_key="k", delay=timedelta(hours=1))
    assert enqueue("h", dedupe_key="k").id == sent.id
    pass_time(hours=1)
    [delivery] = dequeue()
    assert enqueue("h", dedupe_key="k").id == sent.id
    retry(delivery, errors=[{}])
    assert enqueue("h", dedupe_key="k").id == sent.id


@pytest.mark.parametrize("settle", [complete, lambda delivery: dead_letter(delivery, reason="refused")])
def test_a_key_is_free_again_when_its_message_is_settled(settle):
    first = enqueue("h", dedupe_key="k")
    settle(*dequeue())
    again = enqueue("h", dedupe_key="k")
    assert again.created
    assert again.id != first.id


def test_a_key_belongs_to_its_channel_and_none_is_no_key():
    channel_set(channel="other")
    sent = [enqueue("h", dedupe_key="k"), enqueue("h", channel="other", dedupe_key="k"), enqueue("h"), enqueue("h")]
    assert all(answer.created for answer in sent)


def test_a_plain_insert_of_a_duplicate_is_an_error():
    enqueue("h", dedupe_key="k")
    with refused(IntegrityError, "pgqueue_message_dedupe"):
        Message.objects.create(channel=Channel.objects.get(), handler="h", dedupe_key="k")


def test_a_full_channel_refuses_with_an_error():
    channel_set(channel="default", max_size=2)
    enqueue("h")
    enqueue("h")
    with refused(ChannelFull, "2 of 2") as raised:
        enqueue("h")
    assert "max_size" in raised.value.hint
    assert Message.objects.count() == 2


def test_a_full_channel_that_drops_says_so():
    channel_set(channel="default", max_size=1, full_policy="drop")
    assert enqueue("h").created
    answer = enqueue("h")
    assert (answer.id, answer.outcome, answer.created) == (None, "dropped", False)
    assert Message.objects.count() == 1


@pytest.mark.parametrize("policy", ["error", "drop"])
def test_a_plain_insert_into_a_full_channel_raises_whatever_the_policy(policy: str):
    channel_set(channel="default", max_size=1, full_policy=policy)
    channel = Channel.objects.get()
    Message.objects.create(channel=channel, handler="h")
    with refused(DatabaseError, "full") as raised:
        Message.objects.bulk_create([Message(channel=channel, handler="h")])
    assert raised.value.__cause__.sqlstate == ChannelFull.sqlstate
    assert Message.objects.count() == 1


def test_scheduled_and_leased_messages_take_room_and_settled_ones_give_it_back():
    channel_set(channel="default", max_size=2)
    enqueue("h", delay=timedelta(hours=1))
    enqueue("h")
    [delivery] = dequeue()
    with refused(ChannelFull):
        enqueue("h")
    retry(delivery, errors=[{}], delays=[timedelta(0)])
    with refused(ChannelFull):
        enqueue("h")
    [delivery] = dequeue()
    complete(delivery)
    assert enqueue("h").created
    with refused(ChannelFull):
        enqueue("h")


def test_what_a_rollback_took_back_takes_no_room():
    channel_set(channel="default", max_size=1)
    with rolled_back():
        enqueue("h")
    assert enqueue("h").created


def test_a_size_limit_can_be_set_raised_lowered_and_lifted_while_messages_are_there():
    for _ in range(3):
        enqueue("h")
    channel_set(channel="default", max_size=3)
    with refused(ChannelFull):
        enqueue("h")
    channel_set(channel="default", max_size=4)
    enqueue("h")
    channel_set(channel="default", max_size=2)
    complete(dequeue(limit=2))
    with refused(ChannelFull, "2 of 2"):
        enqueue("h")
    channel_set(channel="default", max_size=None)
    for _ in range(5):
        enqueue("h")
    channel_set(channel="default", max_size=8)
    assert enqueue("h").created
    with refused(ChannelFull, "8 of 8"):
        enqueue("h")


def test_a_duplicate_is_found_on_a_full_channel_too():
    for policy in ("error", "drop"):
        channel_set(channel="default", max_size=1, full_policy=policy)
        first = enqueue("h", dedupe_key="k")
        assert enqueue("h", dedupe_key="k").id == first.id
    assert enqueue("h", dedupe_key="another").outcome == "dropped"


def test_functions_that_pin_their_plans_are_not_compiled():
    """A scan that is switched off costs so much on paper that PostgreSQL compiles it: half a second for an enqueue."""
    compiled = sql("""
        SELECT proname FROM pg_proc
        WHERE proname LIKE 'pgqueue%' AND 'enable_seqscan=off' = ANY (proconfig) AND 'jit=off' <> ALL (proconfig)""")
    assert compiled == []
