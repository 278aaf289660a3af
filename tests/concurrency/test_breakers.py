"""A breaker stops the messages of a handler after failures in a row, for all workers together."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.sessions import Session, column, one
from tests.support.verbs import Lease, dequeue, enqueue, make_channel, retry, settle, tick


@pytest.fixture(autouse=True)
def channels(session: Session) -> None:
    make_channel(session, "a")
    make_channel(session, "b")


def breaker_set(session: Session, **settings: Any) -> None:
    given = {"failures": 3, "within": "1 minute", "pause": "1 hour", **settings}
    assert one(session, "SELECT outcome FROM pgqueue_breaker_set('work', %s)", json.dumps(given)) == "created"


def fail(session: Session, times: int, channel: str = "a") -> None:
    for _ in range(times):
        enqueue(session, channel)
        [lease] = dequeue(session)
        retry(session, [lease], delay="1 hour")


def pass_pause(session: Session) -> None:
    """Let the pause of all open breakers be over."""
    session.execute("""UPDATE pgqueue_limit SET opened_at = opened_at - interval '2 hours',
        open_until = open_until - interval '2 hours'""")
    session.execute("UPDATE pgqueue_breaker_outcome SET ended_at = ended_at - interval '2 hours'")


def is_open(session: Session) -> bool:
    return one(session, "SELECT bool_or(open_until IS NOT NULL) FROM pgqueue_limit")


def test_it_opens_after_failures_in_a_row_and_no_attempt_is_counted(session: Session) -> None:
    breaker_set(session)
    fail(session, 3)
    waiting = [enqueue(session, channel) for channel in "aab"]

    assert not dequeue(session, 10)

    assert is_open(session)
    assert one(session, "SELECT sum(attempts) FROM pgqueue_message WHERE id = ANY (%s)", waiting) == 0
    assert one(session, "SELECT count(*) FROM pgqueue_message WHERE waits_for IS NOT NULL") == 3


def test_other_handlers_of_the_same_channel_go_on(session: Session) -> None:
    breaker_set(session)
    fail(session, 3)
    enqueue(session, "a")
    free = one(session, "SELECT id FROM pgqueue_enqueue('other', '{}', 'a')")

    assert [lease.id for lease in dequeue(session, 10)] == [free]


@pytest.mark.parametrize("verb", ["complete", "complete_many"])
def test_a_success_begins_the_count_anew(session: Session, verb: str) -> None:
    breaker_set(session)
    fail(session, 2)
    for _ in range(2):
        enqueue(session, "a")
    leases = dequeue(session, 2)
    for some in [leases] if verb == "complete_many" else [[lease] for lease in leases]:
        settle(session, some)
    fail(session, 2)

    enqueue(session, "a")
    assert len(dequeue(session)) == 1
    fail(session, 1)
    enqueue(session, "a")
    assert not dequeue(session)


def test_failures_that_are_far_apart_open_nothing(session: Session) -> None:
    breaker_set(session)
    fail(session, 2)
    session.execute("UPDATE pgqueue_breaker_outcome SET ended_at = ended_at - interval '2 minutes'")
    fail(session, 1)

    enqueue(session, "a")
    assert len(dequeue(session)) == 1


def test_one_message_tries_after_the_pause_in_whichever_session(session: Session, business: Session) -> None:
    breaker_set(session)
    fail(session, 3)
    for _ in range(4):
        enqueue(session, "a")
    assert not dequeue(session, 10)
    pass_pause(session)

    taken = dequeue(session, 10)
    assert len(taken) == 1
    assert not dequeue(business, 10)
    business.commit()
    settle(session, taken)

    assert len(dequeue(business, 10)) == 3
    business.commit()
    assert not is_open(session)
    assert one(session, "SELECT openings FROM pgqueue_limit") == 1


def test_two_dequeues_at_the_same_time_take_one_message_to_try(session: Session, business: Session) -> None:
    breaker_set(session)
    fail(session, 3)
    for _ in range(4):
        enqueue(session, "a")
    pass_pause(session)

    assert len(dequeue(business, 10)) == 1
    assert not dequeue(session, 10)
    business.commit()
    assert not dequeue(session, 10)


def test_a_try_that_fails_keeps_it_open_for_another_pause(session: Session) -> None:
    breaker_set(session)
    fail(session, 3)
    for _ in range(3):
        enqueue(session, "a")
    assert not dequeue(session)
    pass_pause(session)
    [tried] = dequeue(session)
    retry(session, [tried], delay="1 hour")

    assert not dequeue(session)
    pass_pause(session)
    assert len(dequeue(session, 10)) == 1


def test_the_lease_of_a_try_that_expires_is_a_failure(session: Session) -> None:
    breaker_set(session)
    fail(session, 3)
    for _ in range(3):
        enqueue(session, "a", backoff="1 hour")
    pass_pause(session)
    assert len(dequeue(session, lease="1 ms")) == 1
    session.execute("SELECT pg_sleep(0.01)")

    assert not dequeue(session, 10)
    assert one(session, "SELECT bool_or(tried AND failed) FROM pgqueue_breaker_outcome")
    pass_pause(session)
    assert len(dequeue(session, 10)) == 1


def test_a_try_that_is_deferred_says_nothing_and_another_one_tries(session: Session) -> None:
    breaker_set(session)
    fail(session, 3)
    for _ in range(3):
        enqueue(session, "a")
    pass_pause(session)
    [tried] = dequeue(session)
    settle(session, [tried], "defer", None, ["1 hour"])

    assert len(dequeue(session, 10)) == 1
    assert is_open(session)


def test_a_message_that_ends_late_neither_closes_nor_opens_it(session: Session) -> None:
    breaker_set(session, failures=1)
    for _ in range(4):
        enqueue(session, "a")
    late: list[Lease] = dequeue(session, 4)
    fail_one, succeeds, *fail_later = late
    retry(session, [fail_one], delay="1 hour")
    enqueue(session, "a")
    assert not dequeue(session)
    settle(session, [succeeds])
    assert not dequeue(session)
    pass_pause(session)
    settle(session, dequeue(session))
    enqueue(session, "a")
    settle(session, dequeue(session))
    assert not is_open(session)

    retry(session, fail_later, delay="1 hour")

    enqueue(session, "a")
    assert len(dequeue(session)) == 1


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


def test_it_is_opened_and_closed_by_hand(session: Session) -> None:
    breaker_set(session)
    enqueue(session, "a")
    assert one(session, "SELECT outcome FROM pgqueue_breaker_open('work')") == "open"
    assert not dequeue(session)
    assert one(session, "SELECT outcome FROM pgqueue_breaker_close('work')") == "closed"
    assert len(dequeue(session)) == 1
    fail(session, 2)
    assert one(session, "SELECT outcome FROM pgqueue_breaker_close('work')") == "closed"
    fail(session, 2)
    enqueue(session, "a")
    assert len(dequeue(session)) == 1


def test_an_ordered_channel_waits_and_keeps_its_order(session: Session) -> None:
    make_channel(session, "c", ordered=True)
    breaker_set(session)
    fail(session, 3)
    first, second = enqueue(session, "c"), enqueue(session, "c")
    assert not dequeue(session)
    pass_pause(session)
    session.execute("UPDATE pgqueue_message SET held_until = clock_timestamp() WHERE held_until IS NOT NULL")
    session.execute("UPDATE pgqueue_lane SET parked_until = clock_timestamp() WHERE parked_until IS NOT NULL")

    [tried] = dequeue(session)
    assert tried.id == first
    settle(session, [tried])
    assert [lease.id for lease in dequeue(session)] == [second]


def test_a_sleeping_worker_is_woken_for_the_next_try(session: Session) -> None:
    breaker_set(session, pause="2 seconds")
    fail(session, 3)
    enqueue(session, "a")
    assert not dequeue(session)

    assert 0 < one(session, "SELECT extract(epoch FROM pgqueue_next_due('{default}'))") <= 2
    assert not one(session, "SELECT pgqueue_is_contended('{default}')")


def test_outcomes_that_no_breaker_needs_are_pruned_and_openings_stay_counted(session: Session) -> None:
    breaker_set(session, per="channel")
    fail(session, 3, "a")
    enqueue(session, "a")
    assert not dequeue(session)
    session.execute("SELECT pgqueue_breaker_close('work', 'default', 'a')")
    session.execute("UPDATE pgqueue_limit SET closed_at = closed_at - interval '2 days' WHERE channel_id IS NOT NULL")
    session.execute("UPDATE pgqueue_breaker_outcome SET ended_at = ended_at - interval '2 days'")

    session.execute("SELECT pgqueue_prune_breakers()")

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


def test_a_change_is_given_to_one_worker_alone(session: Session, business: Session) -> None:
    breaker_set(session)
    fail(session, 3)
    assert changes(business) == ["opened"]
    assert changes(session) == []
    business.rollback()
    assert changes(session) == ["opened"]


def test_a_message_that_needs_no_limit_does_not_ask_one(session: Session) -> None:
    breaker_set(session)
    asks = "SELECT count(*) FROM pgqueue_must_ask(ARRAY(SELECT id FROM pgqueue_message))"
    enqueue(session, "a")
    assert one(session, asks) == 0
    fail(session, 1)
    assert one(session, asks) == 2
    settle(session, dequeue(session))
    enqueue(session, "a")
    assert one(session, asks + " AS n JOIN pgqueue_message AS m USING (id) WHERE m.status = 1") == 0
    session.execute("SELECT pgqueue_breaker_open('work')")
    assert one(session, asks) == 2
