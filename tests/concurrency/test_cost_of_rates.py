"""The rates of channels and of whole queues count what messages cost."""

from __future__ import annotations

import time

import pytest

from tests.concurrency.rates import HOUR, UNBOUND, Rated, taken
from tests.support.sessions import Session, one
from tests.support.verbs import dequeue, drain, enqueue, limit_set, make_channel, set_queue, settle


@pytest.mark.parametrize("limit", [1, 10])
def test_a_rate_counts_the_cost_of_messages(session: Session, rated: Rated, limit: int) -> None:
    rated(HOUR, 100)
    ids = [enqueue(session, "a", cost=cost) for cost in (60, 30, 20, 1)]

    assert taken(session, limit) == ids[:2], "10 tokens are left, and the third one is not overtaken"


@pytest.mark.parametrize("limit", [1, 10])
def test_messages_without_a_cost_take_one_token(session: Session, rated: Rated, limit: int) -> None:
    rated(HOUR, 4)
    ids = [enqueue(session, "a", **given) for given in ({}, {"cost": 2}, {}, {})]

    assert taken(session, limit) == ids[:3]


@pytest.mark.parametrize(
    "end", ["pgqueue_cancel(%s)", "pgqueue_discard(%s)", "pgqueue_reschedule(%s, clock_timestamp() + interval '1 day')"]
)
def test_those_behind_a_message_that_waits_for_tokens_go_on_when_it_is_gone(
    session: Session, rated: Rated, end: str
) -> None:
    rated(HOUR, 100)
    first, costly, cheap = (enqueue(session, "a", cost=cost) for cost in (50, 100, 1))
    assert taken(session) == [first]

    session.execute(f"SELECT {end}", [[costly]])

    assert taken(session) == [cheap]


def test_a_more_urgent_message_does_not_wait_for_the_tokens_of_another(session: Session, rated: Rated) -> None:
    rated(HOUR, 100)
    first, _ = (enqueue(session, "a", cost=cost) for cost in (50, 100))
    assert taken(session) == [first]
    urgent = enqueue(session, "a", cost=1, priority=1)

    assert taken(session) == [urgent]


def test_a_message_that_costs_more_than_the_burst_waits_for_a_full_bucket(session: Session, rated: Rated) -> None:
    session.execute(UNBOUND)
    rated(HOUR, 5)
    ids = [enqueue(session, "a", cost=cost) for cost in (1, 50)]
    assert taken(session) == ids[:1], "one token is missing"

    rated("1 microsecond", 5)

    assert taken(session) == ids[1:]


def test_a_message_that_is_set_aside_for_a_shared_limit_costs_no_rate(session: Session, rated: Rated) -> None:
    rated(HOUR, 10)
    limit_set(session, "stripe", max_concurrency=1, handlers=["work"])
    ids = [enqueue(session, "a", cost=4) for _ in range(2)]
    [first] = dequeue(session)
    assert taken(session) == [], "the other one waits for the limit"
    settle(session, [first])

    assert [lease.id for lease in drain(session)] == ids[1:]
    [small, large] = [enqueue(session, "a", cost=cost) for cost in (2, 1)]
    assert [lease.id for lease in drain(session)] == [small], f"8 of 10 tokens are used, and {large} finds none"


def test_an_expensive_message_is_not_overtaken_for_ever(session: Session) -> None:
    """In a queue with a rate, its channel keeps its place in the line, and the others wait."""
    set_queue(session, release_interval="5 milliseconds", release_burst=20)
    for name in "abc":
        make_channel(session, name)
    for _ in range(400):
        enqueue(session, "a")
        enqueue(session, "b")
    [huge] = [enqueue(session, "c", cost=20)]

    served: list[int] = []
    ends = time.monotonic() + 20
    while huge not in served and time.monotonic() < ends:
        served += [lease.id for lease in dequeue(session, 3)]

    assert huge in served
    assert len(served) < 60, "those that came before the look at it, and one round"


def test_a_queue_whose_rate_is_used_up_lets_workers_sleep(session: Session) -> None:
    make_channel(session, "a")
    set_queue(session, release_interval="1 minute", release_burst=20)
    enqueue(session, "a", cost=15)
    enqueue(session, "a", cost=15)
    assert len(taken(session)) == 1

    assert not one(session, "SELECT pgqueue_is_contended('{default}')")
    due = one(session, "SELECT extract(epoch FROM pgqueue_next_due('{default}'))")
    assert due == pytest.approx(600, abs=60), "five tokens are left, and the message needs 15"


def test_a_rolled_back_dequeue_has_cost_nothing(session: Session, business: Session, rated: Rated) -> None:
    rated(HOUR, 10)
    ids = [enqueue(session, "a", cost=cost) for cost in (6, 6)]
    assert [lease.id for lease in dequeue(business)] == ids[:1]
    assert taken(session) == [], "the other session holds the bucket"

    business.rollback()

    assert taken(session) == ids[:1]
