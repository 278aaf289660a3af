"""Dequeues that want the same shared limit at the same time."""

from __future__ import annotations

import pytest

from tests.support.sessions import Session, column, one
from tests.support.verbs import dequeue, enqueue_many, limit_set, make_channel, retry, settle, tick
from tests.support.waiting import eventually


@pytest.fixture(autouse=True)
def channels(session: Session) -> None:
    make_channel(session, "a")
    make_channel(session, "b")


def test_a_message_whose_limit_is_held_stays_ready_and_none_has_to_wait_behind_it(
    session: Session, business: Session
) -> None:
    limit_set(session, "stripe", max_concurrency=50, handlers=["work"])
    [first, second, third] = enqueue_many(session, "aab")
    assert [taken.id for taken in dequeue(business)] == [first]

    assert not dequeue(session)
    assert one(session, "SELECT count(*) FROM pgqueue_message WHERE status = 1 AND waits_for IS NULL") == 3
    assert one(session, "SELECT pgqueue_is_contended('{default}')")
    business.commit()
    assert {taken.id for _ in range(2) for taken in dequeue(session)} == {second, third}


def test_a_limit_that_is_held_sets_few_messages_aside(session: Session, business: Session) -> None:
    """It may have room for all of them. Eight consumers would set a whole backlog aside, 500 messages at a time."""
    limit_set(session, "stripe", max_concurrency=500, handlers=["work"])
    messages = enqueue_many(session, "a" * 200)
    tick(session)
    assert [taken.id for taken in dequeue(business)] == messages[:1]

    def aside() -> list[int]:
        return column(session, "SELECT id FROM pgqueue_message WHERE waits_for > 0")

    eventually(lambda: dequeue(session) or aside())
    assert 0 < len(aside()) < 50
    business.commit()
    assert sorted(taken.id for _ in range(2) for taken in dequeue(session, 200)) == messages[1:]


def test_a_channel_does_not_stay_at_its_limit_for_a_message_that_was_not_leased(
    session: Session, business: Session
) -> None:
    limit_set(session, "stripe", max_concurrency=50, handlers=["work"])
    make_channel(session, "b", max_concurrency=1)
    [first, second] = enqueue_many(session, "ab")
    assert [taken.id for taken in dequeue(business)] == [first]

    assert not dequeue(session)
    business.commit()
    assert [taken.id for taken in dequeue(session)] == [second]


def test_a_backlog_behind_a_full_limit_leaves_the_line_in_a_few_calls(session: Session) -> None:
    limit_set(session, "stripe", max_concurrency=1, handlers=["work"])
    [first, *others] = enqueue_many(session, "a" * 2_000)
    other = one(session, "SELECT id FROM pgqueue_enqueue('other', '{}', 'a')")
    assert [taken.id for taken in dequeue(session)] == [first]

    calls = [{taken.id for taken in dequeue(session)} for _ in range(10)]
    assert {other} in calls
    waiting = "SELECT array_agg(id ORDER BY id) FROM pgqueue_message WHERE waits_for IS NOT NULL AND status = 3"
    assert one(session, waiting) == others


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("verb", ["complete", "dead_letter", "retry"])
def test_a_place_of_a_handler_that_becomes_free_wakes_a_worker_that_sleeps(
    session: Session, other: Session, verb: str, count: int
) -> None:
    limit_set(session, "stripe", max_concurrency=count, handlers=["work"])
    enqueue_many(session, "a" * 5)
    leases = dequeue(session, 5)
    assert len(leases) == count
    other.execute("LISTEN pgqueue")
    other.execute("SELECT pgqueue_wait('w', '{default}', '1 minute')")
    match verb:
        case "dead_letter":
            settle(session, leases, verb, ["a test"] * count)
        case "retry":
            retry(session, leases, "1 hour")
        case _:
            settle(session, leases, verb)

    assert [note.payload for note in other.notifies(timeout=5, stop_after=1)] == ["default"]
    assert len(dequeue(other, 5)) == count
