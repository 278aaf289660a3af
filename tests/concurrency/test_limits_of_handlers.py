"""A shared limit that handlers get counts what is leased already, and holds nothing when they lose it."""

from __future__ import annotations

import pytest

from tests.support.sessions import Session
from tests.support.verbs import dequeue, enqueue, limit_set, make_channel, settle


@pytest.fixture(autouse=True)
def messages(session: Session) -> list[int]:
    make_channel(session, "a")
    return [enqueue(session, "a") for _ in range(10)]


@pytest.mark.parametrize("made", ["with its handlers", "before", "before, and used"])
def test_leases_of_before_count(session: Session, made: str) -> None:
    settings = {"max_concurrency": 4}
    if made != "with its handlers":
        limit_set(session, "stripe", **settings, handlers=["other"])
    if made == "before, and used":
        for _ in range(2):
            session.execute("SELECT pgqueue_enqueue('other', '{}', 'a', p_priority => 1)")
        settle(session, dequeue(session))
        assert len(dequeue(session)) == 1
    held = dequeue(session, 3)
    assert len(held) == 3

    limit_set(session, "stripe", **settings, handlers=["work", "other"])

    more = 0 if made == "before, and used" else 1
    assert len(dequeue(session, 10)) == more
    settle(session, held[:2])
    assert len(dequeue(session, 10)) == 2


def test_their_cost_counts(session: Session) -> None:
    held = dequeue(session, 3)
    limit_set(session, "stripe", max_cost=4, handlers=["work"])
    assert len(dequeue(session, 10)) == 1
    settle(session, held)
    assert len(dequeue(session, 10)) == 3


def test_places_stay_when_another_handler_is_added(session: Session) -> None:
    limit_set(session, "stripe", max_concurrency=4, handlers=["work"])
    assert len(dequeue(session, 10)) == 4
    limit_set(session, "stripe", handlers=["work", "other"])
    assert dequeue(session, 10) == []


def test_messages_that_wait_go_on_when_their_handler_has_it_no_more(session: Session, messages: list[int]) -> None:
    limit_set(session, "stripe", max_concurrency=4, handlers=["work", "other"])
    session.execute("SELECT pgqueue_limit_pause('stripe')")
    kept = enqueue(session, "a", limits=["stripe"])
    session.execute("SELECT pgqueue_enqueue('other', '{}', 'a')")
    assert [dequeue(session, 20) for _ in range(3)] == [[], [], []]

    limit_set(session, "stripe", handlers=["other"])

    assert sorted(lease.id for lease in dequeue(session, 20)) == messages
    assert kept not in messages
