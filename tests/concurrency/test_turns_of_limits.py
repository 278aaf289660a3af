"""The turns of a full shared limit, by several sessions, and by the calls that take messages in other ways."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from itertools import groupby

import pytest

from tests.support.sessions import Connect, Session, one, together
from tests.support.verbs import dequeue, enqueue, limit_set, make_channel, send, settle

MATCHING = "SELECT id FROM pgqueue_dequeue_matching('default', %s, p_payload => '{}')"


def enqueue_other(session: Session, channel: str = "a") -> int:
    """Enqueue a message of a handler that has no limit."""
    return int(one(session, "SELECT id FROM pgqueue_enqueue('other', '{}', %s)", channel))


@pytest.fixture
def full(session: Session) -> list[int]:
    """One place, and five messages that have the limit by their handler: they do not wait for it yet."""
    make_channel(session, "a")
    limit_set(session, "stripe", max_concurrency=1, handlers=["work"])
    return [enqueue(session, "a") for _ in range(5)]


def test_a_turn_goes_on_in_another_session(session: Session, business: Session) -> None:
    """Places get free one by one, and the sessions take them in turn. An open one holds the limit meanwhile."""
    make_channel(session, "a", weight=3)
    make_channel(session, "b")
    limit_set(session, "stripe", max_concurrency=1)
    send(session, "a", 20)
    send(session, "b", 20)

    served = []
    for place in range(16):
        taker, other = (business, session) if place % 2 else (session, business)
        with taker.transaction():
            leases = dequeue(taker)
            assert dequeue(other) == [], "the limit is held"
            other.rollback()
        business.commit()
        served += [lease.channel for lease in leases]
        settle(session, leases)

    runs = [(name, len(list(group))) for name, group in groupby(served)]
    assert len(served) == 16
    assert set(runs[1:-1]) == {("a", 3), ("b", 1)}


def test_workers_together_keep_the_turns_and_the_limit(session: Session, connect: Connect) -> None:
    weights = {"a": 1, "b": 2, "c": 3}
    for name, weight in weights.items():
        make_channel(session, name, weight=weight)
    limit_set(session, "stripe", max_concurrency=3)
    for name in weights:
        send(session, name, 150)
    served: list[str] = []
    most = [0]
    done = threading.Event()

    def work(worker: Session) -> Callable[[], None]:
        def run() -> None:
            ends = time.monotonic() + 60
            while not done.is_set() and time.monotonic() < ends:
                leases = dequeue(worker)
                served.extend(lease.channel for lease in leases)
                leased = one(worker, "SELECT count(*) FROM pgqueue_message WHERE status = 2")
                most[0] = max(most[0], leased)
                settle(worker, leases)
                if len(served) >= 180:
                    done.set()

        return run

    together(*(work(connect(autocommit=True)) for _ in range(4)))

    counts = Counter(served[:180])
    assert 2 <= most[0] <= 3
    assert [counts[name] for name in weights] == [pytest.approx(180 * w / 6, abs=9) for w in weights.values()]


def test_dequeue_matching_passes_over_messages_that_it_sets_aside(session: Session, full: list[int]) -> None:
    free = [enqueue_other(session) for _ in range(3)]

    taken = [number for (number,) in session.execute(MATCHING, [3]).fetchall()]

    assert sorted(taken) == sorted([full[0], *free[:2]])
    assert one(session, "SELECT count(*) FROM pgqueue_message WHERE waits_for IS NOT NULL") >= 2


def test_dequeue_matching_takes_a_message_whose_limit_has_room_again(session: Session, full: list[int]) -> None:
    [lease] = dequeue(session)
    assert session.execute(MATCHING, [5]).fetchall() == []
    assert one(session, "SELECT count(*) FROM pgqueue_message WHERE waits_for IS NOT NULL") == 4

    settle(session, [lease])

    assert session.execute(MATCHING, [5]).fetchall() == [(full[1],)]


def test_a_turn_that_is_given_back_is_not_longer_by_the_turns_that_were_missed(session: Session) -> None:
    """A turn of 4 messages, three of them for missed turns, was over; one of them was set aside."""
    for name in "ab":
        make_channel(session, name)
        send(session, name, 3, limits=())
    session.commit()
    assert len(dequeue(session, 2)) == 2, "both have a lane"
    session.execute("UPDATE pgqueue_lane SET round = (5 << 20) + (3 << 16) + 1, served = 0")
    session.execute("SELECT pgqueue_keep_turns(ARRAY(SELECT min(id) FROM pgqueue_message WHERE status = 1))")
    assert one(session, "SELECT max(served) FROM pgqueue_lane") == 3
