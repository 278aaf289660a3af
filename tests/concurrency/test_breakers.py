"""A breaker stops the messages of a handler after failures in a row, and lets one try after a pause."""

from __future__ import annotations

import pytest

from tests.concurrency.breakers import breaker_set, channels, fail, is_open, pass_pause  # noqa: F401  (a fixture)
from tests.support.sessions import Session, one
from tests.support.verbs import Lease, dequeue, enqueue, retry, settle

pytestmark = pytest.mark.usefixtures("channels")


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
