"""A breaker beside channels, other sessions, settlements, workers and operators."""

from __future__ import annotations

from typing import Any

import pytest

from tests.concurrency.breakers import breaker_set, channels, fail, is_open, pass_pause  # noqa: F401  (a fixture)
from tests.support.sessions import Session, column, one
from tests.support.verbs import dequeue, enqueue, make_channel, retry, settle, tick

pytestmark = pytest.mark.usefixtures("channels")


def test_one_for_each_channel_stops_that_channel_alone(session: Session) -> None:
    breaker_set(session, per="channel")
    fail(session, 3, "a")
    for channel in "abab":
        enqueue(session, channel)

    assert [lease.channel for lease in dequeue(session, 10)] == ["b", "b"]
    assert one(session, "SELECT count(*) FROM pgqueue_limit WHERE open_until IS NOT NULL") == 1
    pass_pause(session)
    [tried] = dequeue(session, 10)
    settle(session, [tried])
    assert [lease.channel for lease in dequeue(session, 10)] == ["a"]


def test_it_opens_for_two_channels_at_the_same_time(session: Session, business: Session) -> None:
    breaker_set(session, per="channel")
    fail(session, 3, "a")
    fail(session, 3, "b")
    for channel in "ab":
        enqueue(session, channel)

    assert not dequeue(business)
    assert not dequeue(session)
    business.commit()
    tick(session)
    assert not dequeue(session, 10)

    assert one(session, "SELECT count(*) FROM pgqueue_limit WHERE open_until IS NOT NULL") == 2


def test_a_closed_breaker_lets_dequeues_run_beside_each_other(session: Session, business: Session) -> None:
    breaker_set(session)
    fail(session, 1)
    for channel in "ab":
        enqueue(session, channel)

    assert len(dequeue(business)) == 1
    assert len(dequeue(session)) == 1


def test_waiting_messages_go_on_when_the_breaker_is_taken_away(session: Session) -> None:
    breaker_set(session)
    fail(session, 3)
    enqueue(session, "a")
    assert not dequeue(session)

    assert one(session, "SELECT outcome FROM pgqueue_breaker_set('work', NULL)") == "dropped"

    assert len(dequeue(session)) == 1


def test_an_ordered_channel_waits_and_keeps_its_order(session: Session) -> None:
    make_channel(session, "c", ordered=True)
    breaker_set(session)
    fail(session, 3)
    first, second = enqueue(session, "c"), enqueue(session, "c")
    assert not dequeue(session)
    pass_pause(session)

    [tried] = dequeue(session)
    assert tried.id == first
    settle(session, [tried])
    assert [lease.id for lease in dequeue(session)] == [second]


def test_outcomes_that_no_breaker_needs_are_pruned_and_openings_stay_counted(session: Session) -> None:
    breaker_set(session, per="channel")
    fail(session, 3, "a")
    enqueue(session, "a")
    assert not dequeue(session)
    session.execute("SELECT pgqueue_breaker_close('work', 'default', 'a')")
    session.execute("UPDATE pgqueue_limit SET closed_at = closed_at - interval '2 days' WHERE channel_id IS NOT NULL")
    session.execute("UPDATE pgqueue_breaker_outcome SET ended_at = ended_at - interval '2 days'")

    session.execute("SELECT pgqueue_prune_limits()")

    assert one(session, "SELECT array_agg(openings) FROM pgqueue_limit") == [1]
    assert one(session, "SELECT count(*) FROM pgqueue_breaker_outcome") == 0


def changes(session: Session) -> list[str]:
    return column(session, "SELECT change FROM pgqueue_breaker_changes()")


def test_it_opens_and_closes_with_the_settlement_and_not_only_with_the_next_dequeue(session: Session) -> None:
    breaker_set(session)
    fail(session, 3)
    assert is_open(session)
    enqueue(session, "a")
    pass_pause(session)
    settle(session, dequeue(session))
    assert not is_open(session)
    assert changes(session) == ["opened", "tried", "closed"]


def test_a_failure_in_an_older_snapshot_opens_it_with_the_next_dequeue(session: Session, business: Session) -> None:
    breaker_set(session)
    fail(session, 2)
    enqueue(session, "a")
    leases = dequeue(session)
    business.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    business.execute("SELECT FROM pgqueue_limit")
    session.execute("UPDATE pgqueue_limit SET breaker_pause = '2 hours'")
    retry(business, leases, delay="1 hour")
    business.commit()
    assert not is_open(session)

    enqueue(session, "a")
    assert not dequeue(session)
    assert is_open(session)


def test_a_settlement_does_not_wait_for_a_dequeue_that_holds_the_breaker(session: Session, business: Session) -> None:
    breaker_set(session)
    for _ in range(4):
        enqueue(session, "a")
    leases = dequeue(session, 3)
    business.execute("SELECT FROM pgqueue_limit FOR NO KEY UPDATE")
    session.execute("SET statement_timeout = '20 s'")

    retry(session, leases, delay="1 hour")

    assert not is_open(session)
    business.commit()
    assert not dequeue(session)
    assert is_open(session)


OPEN = "SELECT * FROM pgqueue_open_breakers(%s, '{default,default}', '{a,b}')"
WORK, OTHER = ["work", "work"], ["other", "other"]


def test_two_settlements_that_do_not_see_each_other_open_it_for_the_worker_at_once(
    session: Session, business: Session
) -> None:
    breaker_set(session)
    for _ in range(4):
        enqueue(session, "a")
    first, second, third = dequeue(session, 3)
    retry(business, [first, second], delay="1 hour")
    retry(session, [third], delay="1 hour")
    assert rows(session, OPEN, WORK) == []
    business.commit()
    assert not is_open(session)

    assert rows(session, OPEN, WORK) == [("work", None, None)]
    assert rows(session, OPEN, OTHER) == []
    assert not dequeue(session)
    assert is_open(session)


def test_the_next_failure_opens_what_two_settlements_did_not_see(session: Session, business: Session) -> None:
    breaker_set(session)
    for _ in range(4):
        enqueue(session, "a")
    first, second, third, fourth = dequeue(session, 4)
    retry(business, [first, second], delay="1 hour")
    retry(session, [third], delay="1 hour")
    business.commit()
    assert not is_open(session)

    retry(session, [fourth], delay="1 hour")

    assert is_open(session)


def test_a_worker_learns_which_channels_have_an_open_breaker(session: Session) -> None:
    breaker_set(session, per="channel")
    fail(session, 3, "a")
    assert rows(session, OPEN, WORK) == [("work", "default", "a")]


def test_a_worker_learns_that_it_is_open_while_a_dequeue_holds_it(session: Session, business: Session) -> None:
    breaker_set(session)
    for _ in range(3):
        enqueue(session, "a")
    leases = dequeue(session, 3)
    business.execute("SELECT FROM pgqueue_limit FOR NO KEY UPDATE")
    retry(session, leases, delay="1 hour")
    assert rows(session, OPEN, WORK) == [("work", None, None)]


def rows(session: Session, sql: str, handlers: list[str]) -> list[tuple[Any, ...]]:
    return session.execute(sql, [handlers]).fetchall()


def test_a_change_is_given_to_one_worker_alone(session: Session, business: Session) -> None:
    breaker_set(session)
    fail(session, 3)
    assert changes(business) == ["opened"]
    assert changes(session) == []
    business.rollback()
    assert changes(session) == ["opened"]
