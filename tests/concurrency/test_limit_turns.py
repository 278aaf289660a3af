"""The places of a full shared limit go round the channels, also when messages of one of them keep arriving."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.support.sessions import Session
from tests.support.verbs import Lease, dequeue, enqueue, limit_set, make_channel, send, settle


def served(session: Session, rounds: int, limit: int, **arguments: Any) -> Counter[str]:
    """Settle one message and dequeue up to ``limit`` in each round, after a new message of b has come.

    ``arguments``: of the messages of both channels. Messages of a wait for the limit before the first round.
    """
    for _ in range(100):
        enqueue(session, "a", **arguments)
    leases = dequeue(session, 2)
    assert dequeue(session, 200) == []
    found: Counter[str] = Counter()
    for _ in range(rounds):
        enqueue(session, "b", **arguments)
        settle(session, leases[:1])
        new = dequeue(session, limit)
        found.update(lease.channel for lease in new)
        leases = leases[1:] + new
    return found


@pytest.mark.parametrize("by", ["message", "handler"])
@pytest.mark.parametrize("limit", [1, 10])
@pytest.mark.parametrize(("weight", "share"), [(1, 20), (3, 30)])
def test_new_messages_of_one_channel_leave_the_waiting_ones_of_another_their_share(
    session: Session, weight: int, share: int, limit: int, by: str
) -> None:
    make_channel(session, "a", weight=weight)
    make_channel(session, "b")
    limit_set(session, "stripe", max_concurrency=2, handlers=["work"] if by == "handler" else [])

    found = served(session, 40, limit, **({} if by == "handler" else {"limits": ["stripe"]}))

    assert found["a"] == pytest.approx(share, abs=2)
    assert found["a"] + found["b"] == 40


def test_a_new_message_takes_a_free_place_when_none_wait(session: Session) -> None:
    make_channel(session, "a")
    limit_set(session, "stripe", max_concurrency=2, handlers=["work"])
    first = enqueue(session, "a")

    assert [lease.id for lease in dequeue(session)] == [first]


def test_messages_that_wait_in_another_queue_keep_no_place(session: Session) -> None:
    make_channel(session, "a", queue="others")
    make_channel(session, "b")
    limit_set(session, "stripe", max_concurrency=1, handlers=["work"])
    enqueue(session, "a", "others")
    enqueue(session, "a", "others")
    [held] = dequeue(session, queue="others")
    assert dequeue(session, 10, queue="others") == []
    settle(session, [held])
    new = enqueue(session, "b")

    assert [lease.id for lease in dequeue(session)] == [new]


def test_an_ordered_channel_takes_turns_with_those_that_wait(session: Session) -> None:
    make_channel(session, "a")
    make_channel(session, "b", ordered=True)
    limit_set(session, "stripe", max_concurrency=1)
    send(session, "a", 3)
    [held] = dequeue(session)
    settle(session, [held])
    [strict] = send(session, "b")

    delivered: list[Lease] = []
    for _ in range(3):
        leases = dequeue(session)
        settle(session, leases)
        delivered += leases

    assert strict in {lease.id for lease in delivered}


def wait_for_stripe(session: Session) -> None:
    """Let two messages of channel a wait for a shared limit that has room."""
    make_channel(session, "a")
    limit_set(session, "stripe", max_concurrency=2, handlers=["work"])
    for _ in range(4):
        enqueue(session, "a")
    held = dequeue(session, 2)
    assert dequeue(session, 2) == []
    settle(session, held)


def test_a_dequeue_of_another_queue_locks_no_limit(session: Session, business: Session) -> None:
    """It would hold the limit until its commit, and none of those who wait could have the places."""
    make_channel(session, "b", "others")
    wait_for_stripe(session)

    assert dequeue(business, 10, queue="others") == []
    session.execute("SELECT FROM pgqueue_limit FOR UPDATE NOWAIT")
    assert len(dequeue(session, 10)) == 2
