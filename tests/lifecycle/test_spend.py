"""spend corrects what a message costs, and the next lease within its limits pays the difference."""

from __future__ import annotations

import pytest

from django_pgqueue import Delivery, channel_set, complete, dequeue, enqueue, limit_set, spend
from django_pgqueue.exceptions import InvalidMessage, LeaseLost
from tests.support.cases import cases
from tests.support.sql import value

pytestmark = [pytest.mark.django_db]


@pytest.fixture
def bucket() -> None:
    """A limit of 100 tokens, which come back too slowly for a test."""
    limit_set("gpt", rate="1/h burst 100")


def lease_with_cost(cost: int) -> list[Delivery]:
    enqueue("h", limits=["gpt"], cost=cost)
    return dequeue(limit=5)


@pytest.mark.usefixtures("bucket")
def test_a_message_that_cost_more_leaves_less_to_the_next() -> None:
    [first] = lease_with_cost(30)
    assert spend(first, 90) == 30
    assert not lease_with_cost(30)


@pytest.mark.usefixtures("bucket")
def test_a_message_that_cost_less_leaves_more_to_the_next() -> None:
    [first] = lease_with_cost(90)
    assert spend(first, 10) == 90
    assert len(lease_with_cost(60)) == 1


@pytest.mark.usefixtures("bucket")
def test_each_correction_is_paid_once() -> None:
    [first] = lease_with_cost(10)
    spend(first, 40)
    spend(first, 50)
    assert len(lease_with_cost(20)) == 1
    assert len(lease_with_cost(20)) == 1
    assert value("SELECT count(*) FROM pgqueue_spent") == 0
    assert not lease_with_cost(20)


def test_a_limit_for_each_channel_charges_the_one_of_the_message() -> None:
    limit_set("gpt", rate="1/h burst 100", per="channel")
    for channel in "ab":
        channel_set(channel=channel)
        enqueue("h", channel=channel, limits=["gpt"], cost=10)
    [first, _] = dequeue(limit=5)
    spend(first, 100)
    for channel in "ab":
        enqueue("h", channel=channel, limits=["gpt"], cost=80)
    [other] = dequeue(limit=5)
    assert other.channel != first.channel


def test_the_cost_in_flight_is_the_new_one_at_once() -> None:
    limit_set("gpt", max_cost=100)
    [first] = lease_with_cost(60)
    assert not lease_with_cost(60)
    spend(first, 30)
    assert len(dequeue(limit=5)) == 1


@pytest.mark.usefixtures("bucket")
def test_only_the_holder_corrects() -> None:
    [first] = lease_with_cost(10)
    complete(first)
    with pytest.raises(LeaseLost):
        spend(first, 20)


@pytest.mark.usefixtures("bucket")
@cases("cost", [0, -1, 2**31, "7", True, 1.5])
def test_a_cost_that_is_none_is_refused(cost: int) -> None:
    [first] = lease_with_cost(10)
    with pytest.raises(InvalidMessage):
        spend(first, cost)
    assert value("SELECT cost FROM pgqueue_message") == 10
