"""Messages of one order key are delivered one after the other, in order; others of the channel go on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.concurrency.order_keys import DEAD, KEY, ids, send
from tests.support.sessions import Session
from tests.support.verbs import Lease, dequeue, enqueue, limit_set, make_channel, retry, settle

DEFER = "SELECT pgqueue_defer(%s, %s, p_delays => ARRAY[interval '1 hour'])"
End = Callable[[Session, Lease], object]
ENDS: dict[str, End] = {
    "complete": lambda session, lease: settle(session, [lease]),
    "dead_letter": lambda session, lease: session.execute(DEAD, [[lease.id], [lease.token]]),
    "discard": lambda session, lease: session.execute("SELECT pgqueue_discard(%s)", [[lease.id]]),
    "cancelled": lambda session, lease: settle(session, [lease], "complete", None, False, True),
}


def test_the_same_key_of_another_channel_is_another_key(session: Session) -> None:
    make_channel(session, "other")
    send(session)
    enqueue(session, "other", order_key=KEY)

    assert {lease.channel for lease in dequeue(session, 10)} == {"default", "other"}


@pytest.mark.parametrize("end", ENDS)
def test_each_end_of_a_message_lets_the_next_one_go(session: Session, end: str) -> None:
    _, second = send(session, count=2)
    [lease] = dequeue(session, 10)

    ENDS[end](session, lease)

    assert ids(dequeue(session)) == [second]


def test_a_purge_of_another_channel_does_not_let_a_message_go(session: Session) -> None:
    make_channel(session, "other")
    enqueue(session, "other", order_key=KEY)
    send(session, count=2)
    assert len(dequeue(session)) == 1
    session.execute("SELECT pgqueue_channel_purge('default', 'other')")

    assert dequeue(session, 10) == []


@pytest.mark.parametrize("way", ["retry", "defer", "expire"])
def test_a_message_that_comes_again_holds_its_key_meanwhile(session: Session, way: str) -> None:
    first, second = send(session, count=2, backoff="1 hour")
    [lease] = dequeue(session, lease="1 ms" if way == "expire" else "1 minute")
    if way == "retry":
        retry(session, [lease], "1 hour")
    elif way == "defer":
        session.execute(DEFER, [[lease.id], [lease.token]])
    else:
        session.execute("SELECT pg_sleep(0.01)")
        session.execute("SELECT pgqueue_sweep()")
    assert dequeue(session, 10) == []

    session.execute("SELECT pgqueue_reschedule(%s)", [[first]])
    [again] = dequeue(session, 10)
    assert (again.id, again.attempts) == (first, 1 if way == "defer" else 2)
    settle(session, [again])
    assert ids(dequeue(session, 10)) == [second]


def test_a_more_urgent_message_does_not_pass_within_its_key(session: Session) -> None:
    [first] = send(session)
    [urgent] = send(session, priority=9)

    [lease] = dequeue(session, 10)
    assert lease.id == first
    settle(session, [lease])
    assert ids(dequeue(session, 10)) == [urgent]


def test_a_message_that_waits_goes_on_to_its_time_and_to_its_limits(session: Session) -> None:
    limit_set(session, "stripe", max_concurrency=1)
    [first] = send(session)
    [second] = send(session, limits=["stripe"])
    [third] = send(session, "b", limits=["stripe"])
    leases = dequeue(session, 10) + dequeue(session, 10)
    assert ids(leases) == [first, third]
    settle(session, leases[:1])
    assert dequeue(session, 10) == []
    settle(session, leases[1:])
    assert ids(dequeue(session, 10)) == [second]


def test_an_ordered_channel_keeps_its_own_order(session: Session) -> None:
    make_channel(session, "default", ordered=True)
    send(session)
    [urgent] = send(session, priority=9)

    assert ids(dequeue(session, 10)) == [urgent]


def test_a_rate_is_not_spent_on_messages_that_are_set_aside(session: Session) -> None:
    make_channel(session, "default", release_interval="10 minutes", release_burst=2)
    [first, *_] = send(session, "a", 5)
    [other] = send(session, "b")

    assert ids(dequeue(session)) + ids(dequeue(session)) == [first, other]
