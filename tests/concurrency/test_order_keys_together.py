"""The order of a key holds beside transactions that are open, commit late or are rolled back."""

from __future__ import annotations

import pytest

from tests.concurrency.order_keys import ids, send, waiting
from tests.support.sessions import Connect, Session, one, together
from tests.support.verbs import dequeue, enqueue, retry, settle, tick


def test_a_message_that_commits_late_does_not_run_beside_the_one_that_was_delivered(
    session: Session, business: Session
) -> None:
    [late] = send(business)
    [first] = send(session)
    [lease] = dequeue(session)
    assert lease.id == first > late
    business.commit()

    assert dequeue(session, 10) == []
    retry(session, [lease], "0")
    [again] = dequeue(session, 10)
    assert again.id == first, "it was delivered before, so it holds the key"
    settle(session, [again])
    assert ids(dequeue(session, 10)) == [late]


@pytest.mark.parametrize("limit", [1, 10])
def test_two_dequeues_that_see_different_first_messages_deliver_one(
    session: Session, business: Session, connect: Connect, limit: int
) -> None:
    """The second one sees a message that was committed after the first one's look, and sorts before it."""
    enqueuer = connect(autocommit=False)
    [late] = send(enqueuer)
    [first] = send(session)
    assert ids(dequeue(business, limit)) == [first]
    enqueuer.commit()

    assert dequeue(session, limit) == []
    business.commit()
    assert dequeue(session, limit) == []
    assert waiting(session) == [late]


def test_a_message_that_is_set_aside_beside_the_settlement_before_it_does_not_wait_for_ever(
    session: Session, business: Session
) -> None:
    _, second = send(session, count=2)
    [lease] = dequeue(session)
    assert dequeue(business, 10) == [], "it sets the second one aside, and does not commit yet"

    settle(session, [lease])
    assert dequeue(session, 10) == []
    business.commit()

    assert ids(dequeue(session, 10)) == [second]
    assert one(session, "SELECT count(*) FROM pgqueue_order_note") == 0


def test_a_tick_reads_the_notes_too(session: Session, business: Session) -> None:
    _, second = send(session, count=2)
    [lease] = dequeue(session)
    dequeue(business, 10)
    settle(session, [lease])
    business.commit()
    tick(session)

    assert waiting(session) == []
    assert one(session, "SELECT status FROM pgqueue_message WHERE id = %s", second) == 1


def test_no_key_has_two_deliveries_among_many_workers(session: Session, connect: Connect) -> None:
    """The workers complete, retry and let go at random; each records what its key has in work."""
    keys = [f"k{number % 7}" for number in range(140)]
    sent = [enqueue(session, order_key=key, max_attempts=100) for key in keys]
    key_of = dict(zip(sent, keys, strict=True))
    done: list[int] = []
    in_work: set[str] = set()

    def work(seed: int) -> None:
        own = connect(autocommit=True)
        calls = 0
        while len(done) < len(sent):
            calls += 1
            for lease in dequeue(own, 1 + (seed + calls) % 4):
                key = key_of[lease.id]
                assert key not in in_work
                in_work.add(key)
                own.execute("SELECT pg_sleep(0.001)")
                in_work.remove(key)
                if (lease.id + lease.attempts) % 5 == 0:
                    retry(own, [lease], "1 ms")
                else:
                    done.append(lease.id)
                    settle(own, [lease])
            if calls % 10 == 0:
                tick(own)

    together(*(lambda seed=seed: work(seed) for seed in range(4)))

    for key in set(keys):
        order = [each for each in done if key_of[each] == key]
        assert order == sorted(order)
    assert sorted(done) == sent
