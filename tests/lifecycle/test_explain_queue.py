"""The limits of a whole queue are reason_of as reasons why a message waits, and are gone when their cause is."""

from __future__ import annotations

import pytest

from django_pgqueue import channel_set, dequeue, enqueue, queue_set, spend
from django_pgqueue.lifecycle.figures import limit_health
from django_pgqueue.models import Worker
from tests.lifecycle.test_explain import absorbed, of_channel, of_message, reason_of
from tests.support.moments import expire, pass_time

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("ticked")]


@pytest.mark.parametrize("later", [False, True])
def test_a_queue_at_its_limit_names_the_channels_that_hold_the_places(worker: Worker, later: bool) -> None:
    queue_set(max_concurrency=3)
    channel_set(channel="acme")
    if later:
        pass_time(minutes=11)
    messages = [enqueue("h").id for _ in range(5)]
    enqueue("h", channel="acme")
    dequeue(limit=2)
    [last] = dequeue()
    expire(last)
    reason = reason_of(messages[4], "queue_concurrency")
    assert reason.sentence == (
        "Queue default is at its limit: 3 of 3 messages are leased, by channels default (2), acme (1)."
        " Expired, and waiting for the sweep: 1."
    )
    assert (reason.facts["running"], reason.facts["max_concurrency"], reason.facts["expired"]) == (3, 3, 1)
    assert reason.facts["held_by"] == [{"channel": "default", "messages": 2}, {"channel": "acme", "messages": 1}]
    assert "queue_concurrency" in of_channel()
    queue_set(max_concurrency=4)
    assert "queue_concurrency" not in of_message(messages[4])


def test_the_rate_of_a_queue_says_when_the_next_delivery_may_be(worker: Worker) -> None:
    queue_set(rate="1/10m burst 2")
    messages = [enqueue("h").id for _ in range(3)]
    assert "queue_rate" not in of_message(messages[2]), "no message was delivered yet"
    dequeue()
    assert "queue_rate" not in of_message(messages[2])
    dequeue()
    assert of_message(messages[2]) == ["queue_rate", "in_line"]
    assert "once in 00:10:00: the next time at" in reason_of(messages[2], "queue_rate").sentence
    pass_time(minutes=11)
    assert "queue_rate" not in of_message(messages[2])


def test_tokens_that_a_message_gave_back_count_before_a_dequeue_has_taken_them_in(worker: Worker) -> None:
    queue_set(rate="1/10m burst 5")
    enqueue("h", cost=5)
    [delivery] = dequeue()
    message = enqueue("h").id
    assert "queue_rate" in of_message(message)
    spend(delivery, 1)
    assert "queue_rate" not in of_message(message)
    assert "queue_rate" not in of_channel()
    assert [use.why for use in limit_health() if use.kind == "queue"] == [None]
    assert [delivery.id for delivery in dequeue()] == [message]


def test_a_channel_with_its_share_of_the_leases_waits_for_the_others(worker: Worker) -> None:
    queue_set(fairness="share")
    channel_set(channel="acme")
    messages = [enqueue("h").id for _ in range(5)]
    dequeue(limit=2)
    absorbed()
    assert "share" not in of_message(messages[4]), "alone it gets all"
    enqueue("h", channel="acme")
    absorbed()
    assert reason_of(messages[4], "share").sentence == (
        "Channel default holds 2 of the 2 leases of queue default, which is its share: it waits while channels below "
        "their share wait."
    )
    assert reason_of(messages[4], "share").facts == {"running": 2, "share": 2, "leased": 2}


def test_a_channel_with_its_part_of_the_slots_waits_for_itself() -> None:
    queue_set(max_share=0.5, max_concurrency=4)
    messages = [enqueue("h").id for _ in range(5)]
    assert len(dequeue(limit=4)) == 2
    assert reason_of(messages[4], "max_share").sentence == (
        "Channel default may hold 2 messages at a time, 0.5 of the slots of queue default: it holds 2."
    )
    queue_set(max_share=None)
    assert "max_share" not in of_message(messages[4])
