"""A message that costs more than is free of a shared limit waits, and cheaper ones do not overtake it for ever."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.sessions import Session
from tests.support.verbs import Lease, dequeue, enqueue, limit_set, make_channel, tick
from tests.support.verbs import settle as complete

ROUNDS = 40


@pytest.fixture(autouse=True)
def channels(session: Session) -> None:
    make_channel(session, "cheap")
    make_channel(session, "costly")


def overtakers(session: Session, kind: str, by: str) -> int:
    """Keep cheap messages coming, one in each round. Returns how many are delivered before the costly one.

    ``kind``: max_cost, of which a settlement frees a fifth in each round; or a rate, which gives a fifth of its burst.
    ``by``: message or handler, which has the limit.
    """
    settings: dict[str, Any] = {"max_cost": 10}
    if kind == "rate":
        settings = {"release_interval": "1 hour", "release_burst": 10}
    limit_set(session, "gpt", handlers=["work"] if by == "handler" else [], **settings)
    arguments: dict[str, Any] = {} if by == "handler" else {"limits": ["gpt"]}
    for _ in range(5):
        enqueue(session, "cheap", cost=2, **arguments)
    held: list[Lease] = [lease for _ in range(5) for lease in dequeue(session)]
    assert len(held) == 5
    costly = enqueue(session, "costly", cost=10, **arguments)
    passed = 0
    for _ in range(ROUNDS):
        enqueue(session, "cheap", cost=2, **arguments)
        complete(session, held[:1])
        session.execute("UPDATE pgqueue_meter SET filled_at = filled_at - interval '2 hours'")
        taken = dequeue(session, 10)
        held = held[1:] + taken
        if costly in {lease.id for lease in taken}:
            return passed
        passed += len(taken)
    return passed


@pytest.mark.parametrize("by", ["message", "handler"])
@pytest.mark.parametrize("kind", ["max_cost", "rate"])
def test_cheaper_messages_do_not_overtake_it_for_ever(session: Session, kind: str, by: str) -> None:
    assert overtakers(session, kind, by) <= 2


@pytest.mark.parametrize("settings", [{"max_cost": 10}, {"release_interval": "1 hour", "release_burst": 10}])
def test_cheaper_messages_of_another_queue_do_not_overtake_it_for_ever(
    session: Session, settings: dict[str, Any]
) -> None:
    """Their dequeues come after each settlement, and the costly message is met by a tick now and then."""
    make_channel(session, "cheap", queue="others")
    limit_set(session, "gpt", **settings)
    for _ in range(80):
        enqueue(session, "cheap", "others", cost=2, limits=["gpt"])
    held = [lease for _ in range(5) for lease in dequeue(session, queue="others")]
    assert len(held) == 5
    costly = enqueue(session, "costly", cost=10, limits=["gpt"])
    passed = 0
    for place in range(40):
        complete(session, held[:1])
        session.execute("UPDATE pgqueue_meter SET filled_at = filled_at - interval '2 hours'")
        if place % 2:
            tick(session)
        taken = dequeue(session, 10, queue="others")
        held = held[1:] + taken
        if [lease.id for lease in dequeue(session, 10)] == [costly]:
            break
        passed += len(taken)

    assert passed <= 8


def test_one_of_a_paused_channel_holds_up_no_other(session: Session) -> None:
    limit_set(session, "gpt", max_cost=10)
    enqueue(session, "cheap", cost=2, limits=["gpt"])
    [held] = dequeue(session)
    enqueue(session, "costly", cost=10, limits=["gpt"])
    session.execute("SELECT pgqueue_channel_pause('default', 'costly')")
    assert dequeue(session, 10) == []

    others = [enqueue(session, "cheap", cost=2, limits=["gpt"]) for _ in range(4)]

    assert sorted(lease.id for _ in range(4) for lease in dequeue(session, 10)) == others
    assert held.id not in others
