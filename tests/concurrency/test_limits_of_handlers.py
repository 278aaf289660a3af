"""A shared limit that handlers get counts what is leased already, and holds nothing when they lose it."""

from __future__ import annotations

import pytest

from tests.support.sessions import Connect, Session, one
from tests.support.verbs import dequeue, enqueue, limit_set, make_channel, settle, tick


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


@pytest.mark.parametrize("made", ["new", "before", "before, and used"])
@pytest.mark.parametrize("settings", [{"max_concurrency": 3}, {"max_cost": 3}])
def test_a_lease_counts_that_was_under_way_while_the_handler_got_the_limit(
    session: Session, other: Session, business: Session, made: str, settings: dict[str, int]
) -> None:
    """It cannot be seen before its commit, so until then there is no room."""
    if made != "new":
        limit_set(session, "stripe", **settings, handlers=["other"])
    if made == "before, and used":
        session.execute("SELECT pgqueue_enqueue('other', '{}', 'a', p_priority => 1)")
        settle(session, dequeue(session))
    held = dequeue(business, 2)

    limit_set(session, "stripe", **settings, handlers=["work", "other"])

    assert [dequeue(other, 10) for _ in range(4)] == [[], [], [], []]
    business.commit()
    tick(session)
    assert len(dequeue(other, 10)) == 1
    assert dequeue(other, 10) == []
    settle(session, held)
    assert len(dequeue(other, 10)) == 2


def test_a_lease_that_is_rolled_back_does_not_count(session: Session, other: Session, business: Session) -> None:
    dequeue(business, 2)
    limit_set(session, "stripe", max_concurrency=3, handlers=["work"])
    assert dequeue(other, 10) == []
    business.rollback()
    tick(session)
    assert len(dequeue(other, 10)) == 3


def test_a_lease_of_a_prepared_transaction_counts(session: Session, other: Session, business: Session) -> None:
    """Its name changes when it is prepared."""
    dequeue(business, 2)
    limit_set(session, "stripe", max_concurrency=3, handlers=["work"])
    assert dequeue(other, 10) == []
    business.execute("PREPARE TRANSACTION 'pgqueue limits of handlers'")
    try:
        assert dequeue(other, 10) == []
    finally:
        session.execute("COMMIT PREPARED 'pgqueue limits of handlers'")
    tick(session)
    assert len(dequeue(other, 10)) == 1


@pytest.mark.parametrize("work", ["enqueues", "settles", "reads", "dumps"])
def test_other_open_transactions_hold_nothing_up(
    session: Session, other: Session, business: Session, work: str
) -> None:
    [held] = dequeue(session)
    if work == "enqueues":
        enqueue(business, "a")
    elif work == "settles":
        settle(business, [held])
    elif work == "reads":
        business.execute("SELECT * FROM pgqueue_waiting()")
    else:
        business.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        business.execute("LOCK TABLE pgqueue_lane, pgqueue_limit, pgqueue_limit_handler IN ACCESS SHARE MODE")
    limit_set(session, "stripe", max_concurrency=3, handlers=["work"])

    assert len(dequeue(other, 10)) == 2


def test_a_dequeue_that_begins_later_is_not_waited_for(session: Session, other: Session, connect: Connect) -> None:
    """It knows the limit."""
    session.execute("SELECT pgqueue_enqueue('free', '{}', 'default')")
    older, later = connect(), connect()
    matching = "SELECT count(*) FROM pgqueue_dequeue_matching('default', 1, p_handler => %s)"
    assert one(older, matching, "work") == 1
    limit_set(session, "stripe", max_concurrency=3, handlers=["work"])
    assert one(other, matching, "work") == 0
    assert one(later, matching, "free") == 1
    older.commit()
    tick(session)

    assert [one(other, matching, "work") for _ in range(3)] == [1, 1, 0]


def test_the_same_handlers_once_more_change_nothing(session: Session, other: Session, business: Session) -> None:
    """A worker that starts declares them again."""
    limit_set(session, "stripe", max_concurrency=3, handlers=["work"])
    assert len(dequeue(session)) == 1
    make_channel(session, "b", queue="other")
    session.execute("SELECT pgqueue_enqueue('free', '{}', 'b', 'other')")
    assert len(dequeue(business, queue="other")) == 1
    limit_set(session, "stripe", max_concurrency=3, handlers=["work"])

    assert len(dequeue(other, 10)) == 2
