"""A connection that breaks at the commit leaves unknown whether it happened: a settlement may be repeated."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgqueue import cancel, channel_purge, complete, dead_letter, defer, dequeue, enqueue, pop, retry, sweep
from django_pgqueue.delivery import Delivery
from django_pgqueue.exceptions import LeaseLost
from django_pgqueue.models import DeadLetter
from tests.support.cases import cases
from tests.support.messages import lease_message, live, places
from tests.support.moments import expire
from tests.support.refusals import refused

pytestmark = pytest.mark.django_db


def again_complete(*deliveries: Delivery):
    return dict.fromkeys(complete(deliveries, skip_lost=True), "completed")


def again_defer(*deliveries: Delivery):
    return defer(deliveries, skip_lost=True)


def again_retry(*deliveries: Delivery):
    return retry(deliveries, errors=[{}] * len(deliveries), skip_lost=True)


def again_dead_letter(*deliveries: Delivery):
    return dict.fromkeys(dead_letter(deliveries, reason="refused", skip_lost=True), "dead_lettered")


SETTLE = {"complete": again_complete, "defer": again_defer, "retry": again_retry, "dead_letter": again_dead_letter}
# The answer to the second settlement, after the first.
EXPECTED = {
    ("complete", "complete"): "completed",
    ("complete", "defer"): "completed",
    ("complete", "retry"): "completed",
    ("complete", "dead_letter"): "dead_lettered",
    ("defer", "complete"): None,
    ("defer", "defer"): "retried",
    ("defer", "retry"): "retried",
    ("defer", "dead_letter"): "dead_lettered",
    ("retry", "complete"): None,
    ("retry", "defer"): "retried",
    ("retry", "retry"): "retried",
    ("retry", "dead_letter"): "dead_lettered",
    ("dead_letter", "complete"): None,
    ("dead_letter", "defer"): "dead_lettered",
    ("dead_letter", "retry"): "dead_lettered",
    ("dead_letter", "dead_letter"): "dead_lettered",
}


@cases(("first", "second"), EXPECTED)
def test_a_second_settlement_learns_what_the_first_one_did(first, second):
    delivery = lease_message()
    SETTLE[first](delivery)
    home = places(delivery.id)
    expected = EXPECTED[first, second]
    assert SETTLE[second](delivery) == ({} if expected is None else {delivery.id: expected})
    assert places(delivery.id) == home


@pytest.mark.parametrize("verb", SETTLE)
def test_without_skip_lost_a_second_settlement_is_refused(verb):
    """It guards what else its transaction writes: that was written by the first one."""
    delivery = lease_message()
    SETTLE[verb](delivery)
    again = {
        "complete": lambda: complete(delivery),
        "defer": lambda: defer(delivery),
        "retry": lambda: retry(delivery, errors=[{}]),
        "dead_letter": lambda: dead_letter(delivery, reason="refused"),
    }
    with refused(LeaseLost) as raised:
        again[verb]()
    assert raised.value.ids == (delivery.id,)


def test_a_repeated_retry_leaves_one_error_and_one_attempt():
    delivery = lease_message()
    for _ in range(3):
        again_retry(delivery)
    assert live(delivery.id, "attempts", "jsonb_array_length(errors)") == (1, 1)


def test_a_repeated_deferral_does_not_take_the_next_delivery_back():
    first = lease_message()
    again_defer(first)
    [second] = dequeue()
    assert again_defer(first) == {first.id: "retried"}
    assert complete(second) == {second.id}
    assert again_complete(first) == {}


def test_a_lease_that_the_sweep_buried_is_lost_for_ever():
    delivery = lease_message(max_attempts=1)
    expire(delivery)
    sweep()
    assert DeadLetter.objects.get().reason == "poison"
    for settle in SETTLE.values():
        assert settle(delivery) == {}


def test_the_sweep_does_not_forget_an_earlier_settlement():
    first = lease_message()
    again_defer(first)
    [second] = dequeue()
    expire(second)
    sweep()
    assert again_defer(first) == {first.id: "retried"}
    assert again_defer(second) == {}


def test_a_message_that_was_cancelled_instead_of_given_back_is_known():
    delivery = lease_message()
    cancel(delivery.id)
    assert again_defer(delivery) == {delivery.id: "cancelled"}
    assert again_defer(delivery) == again_retry(delivery) == {delivery.id: "cancelled"}


def test_a_popped_or_purged_message_was_not_settled_by_a_lease():
    enqueue("h")
    [popped] = pop()
    delivery = lease_message()
    defer(delivery, delay=timedelta(0))
    channel_purge(channel="default")
    for settle in SETTLE.values():
        assert settle(popped, delivery) == {}
