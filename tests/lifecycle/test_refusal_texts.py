"""The error of a refusal says why, and a call for many messages answers with refusals."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, transaction

from django_pgqueue import channel_release, channel_set, enqueue, enqueue_many
from django_pgqueue.delivery import NewMessage
from django_pgqueue.exceptions import ChannelFull, ChannelNotFound
from django_pgqueue.models import Channel, Message
from tests.lifecycle.test_refusals import many
from tests.support.cases import cases
from tests.support.refusals import refusal
from tests.support.sql import sql

pytestmark = pytest.mark.django_db


# The text of the error.


def test_a_full_channel_is_named_with_its_queue_and_what_it_holds(crowd: None) -> None:
    with pytest.raises(ChannelFull, match='channel "full" of queue "default" holds 1 of 1 messages'):
        enqueue("h", channel="full")
    with pytest.raises(DatabaseError, match='channel "full" of queue "default" holds 1 of 1 messages'):
        Message.objects.create(channel=Channel.objects.get(name="full"), handler="h")


def test_a_missing_channel_says_the_call_that_makes_it() -> None:
    with pytest.raises(ChannelNotFound) as raised:
        enqueue("h", channel="acme", queue="mails")
    assert "channel_set(queue='mails', channel='acme')" in raised.value.hint
    assert (
        "pgqueue_channel_set(p_queue => 'mails', p_channel => 'acme')"
        in refusal("pgqueue_enqueue('h', p_queue => 'mails', p_channel => 'acme')")["hint"]
    )


def test_a_channel_of_another_queue_is_found() -> None:
    for queue in ("a", "mails", "z"):
        channel_set(channel="other", queue=queue)
    channel_set(channel="acme", queue="mails")
    with pytest.raises(ChannelNotFound) as raised:
        enqueue("h", channel="acme")
    assert raised.value.hint.startswith(
        'It exists in queue "mails": name that queue, or create it with channel_set(queue='
    )
    with pytest.raises(ChannelNotFound) as raised:
        enqueue("h", channel="nobody")
    assert raised.value.hint.startswith("Check the name, or create it with channel_set(queue=")


@pytest.mark.parametrize("policy", ["error", "drop"])
def test_a_released_channel_says_so_before_anything_else(policy: str) -> None:
    channel_set(channel="old", max_size=1, full_policy=policy)
    first = enqueue("h", channel="old", dedupe_key="k")
    assert first.created
    channel_release(channel="old")
    for key in (None, "k"):
        assert enqueue("h", channel="old", dedupe_key=key, on_refused="return").outcome == "released"


def test_an_exception_can_be_had_in_sql() -> None:
    with pytest.raises(DatabaseError) as raised, transaction.atomic():
        sql("SELECT pgqueue_raise(refusal) FROM pgqueue_enqueue('h', p_channel => 'missing')")
    assert raised.value.__cause__.sqlstate == "PGQ03"
    assert sql("SELECT id IS NOT NULL, pgqueue_raise(refusal) FROM pgqueue_enqueue('h')") == [(True, "")]


# on_refused.


@cases(
    ("given", "outcome"),
    [
        ({"channel": "full"}, "full"),
        ({"channel": "released"}, "released"),
        ({"channel": "missing"}, "not_found"),
        ({"backoff": timedelta(seconds=-1)}, "invalid"),
        ({"payload": object()}, "invalid"),
    ],
)  # fmt: skip
def test_a_refusal_can_be_returned(crowd: None, given: dict[str, Any], outcome: str) -> None:
    answer = enqueue("h", **given, on_refused="return")
    assert (answer.id, answer.outcome, answer.created) == (None, outcome, False)
    assert answer.reason
    [again] = enqueue_many([NewMessage(handler="h", **given)], on_refused="return")
    assert (again.id, again.outcome) == (None, outcome)


def test_of_many_those_that_are_not_refused_are_enqueued(crowd: None) -> None:
    asked = [
        *many("default", "full", "missing"),
        *many("default", payload=object()),
        *many("released", "drops", "default"),
    ]
    answers = enqueue_many(asked, on_refused="return")
    assert [answer.outcome for answer in answers] == [
        "created", "full", "not_found", "invalid", "released", "dropped", "created",
    ]  # fmt: skip
    assert Message.objects.filter(id__in=[answers[0].id, answers[-1].id]).count() == 2


def test_all_or_none_says_which_is_refused(crowd: None) -> None:
    with pytest.raises(ChannelFull, match=r'^message 2 of 3: channel "full"'):
        enqueue_many(many("default", "full", "default"))
    rows = sql("SELECT id, outcome FROM pgqueue_enqueue_many('{h,h,h}', NULL, '{default,released,full}')")
    assert rows == [(None, "withheld"), (None, "released"), (None, "full")]
