"""Corrections of costs: each difference is charged once, to the rate of its time."""

from __future__ import annotations

import threading

from tests.support.sessions import Connect, Session, one, wait_for_lock
from tests.support.verbs import dequeue, enqueue, limit_set, make_channel, send, set_queue

SPEND = "SELECT pgqueue_spend(%s, %s, %s)"


def test_the_second_one_knows_what_the_first_has_charged(session: Session, business: Session, connect: Connect) -> None:
    make_channel(session, "a")
    limit_set(session, "gpt", release_interval="1 hour", release_burst=100)
    send(session, "a", limits=["gpt"], cost=10)
    [lease] = dequeue(session)
    assert one(business, SPEND, lease.id, lease.token, 40) == 10
    second = connect(autocommit=True)
    known: list[int] = []
    waiting = threading.Thread(target=lambda: known.append(one(second, SPEND, lease.id, lease.token, 50)))
    waiting.start()
    wait_for_lock(session, second)
    business.commit()
    waiting.join(10)

    assert known == [40]
    assert one(session, "SELECT sum(cost) FROM pgqueue_spent") == 40
    assert one(session, "SELECT cost FROM pgqueue_message") == 50


def test_a_later_rate_of_the_queue_is_not_charged_with_what_was_spent_before(session: Session) -> None:
    make_channel(session, "a")
    set_queue(session, release_interval="1 hour", release_burst=5)
    enqueue(session, "a")
    [lease] = dequeue(session)
    one(session, SPEND, lease.id, lease.token, 5)
    set_queue(session, release_interval=None)
    for _ in range(5):
        enqueue(session, "a")

    assert len(dequeue(session)) == 1
    set_queue(session, release_interval="1 hour", release_burst=5)
    assert len(dequeue(session, 10)) == 4
