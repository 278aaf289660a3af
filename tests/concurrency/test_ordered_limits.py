"""A message of an ordered channel waits for a full shared limit as others do, and holds its channel meanwhile."""

from __future__ import annotations

import pytest

from tests.support.sessions import Session, column, one
from tests.support.verbs import (
    dequeue,
    drain,
    enqueue,
    enqueue_many,
    limit_set,
    make_channel,
    retry,
    send,
    settle,
    tick,
)

LANE = "SELECT seq, parked_until = 'infinity' FROM pgqueue_lane"
WAITING = "SELECT id FROM pgqueue_message WHERE waits_for >= 0 ORDER BY id"
PAUSE = "SELECT pgqueue_handler_pause('work', 'Stripe is down')"
RESUME = "SELECT pgqueue_handler_resume('work')"


@pytest.fixture
def waiting(session: Session) -> list[int]:
    """Three messages of an ordered channel; the first one waits, because its handler is paused."""
    make_channel(session, "strict", ordered=True)
    session.execute(PAUSE)
    ids = enqueue_many(session, ["strict"] * 3)
    assert dequeue(session, 10) == []
    assert column(session, WAITING) == ids[:1]
    return ids


def test_it_leaves_the_line_until_the_limit_has_room(session: Session, waiting: list[int]) -> None:
    """A thousand such channels must cost the others nothing."""
    [before] = session.execute(LANE).fetchall()
    assert before[1]
    for _ in range(3):
        assert dequeue(session, 10) == []
        tick(session)
    session.execute("SELECT * FROM pgqueue_sweep()")
    assert session.execute(LANE).fetchall() == [before]

    session.execute(RESUME)

    assert [lease.id for lease in drain(session)] == waiting


def test_a_more_urgent_message_does_not_pass_it(session: Session, waiting: list[int]) -> None:
    enqueue(session, "strict", priority=5)
    assert dequeue(session, 10) == []
    session.execute(RESUME)
    assert dequeue(session, 10)[0].id == waiting[0]


def test_a_message_of_another_handler_does_not_pass_it(session: Session) -> None:
    """It brings the lane back, whose only message was set aside."""
    make_channel(session, "strict", ordered=True)
    session.execute(PAUSE)
    first = enqueue(session, "strict")
    assert dequeue(session, 10) == []
    second = one(session, "SELECT id FROM pgqueue_enqueue('other', p_channel => 'strict')")
    assert dequeue(session, 10) == []
    session.execute(RESUME)
    assert [lease.id for lease in drain(session)] == [first, second]


@pytest.mark.parametrize(
    "remove",
    [
        "SELECT pgqueue_cancel(%s)",
        "SELECT pgqueue_discard(%s)",
        "SELECT pgqueue_reschedule(%s, clock_timestamp() + interval '1 hour')",
    ],
)
def test_the_channel_goes_on_when_it_is_gone(session: Session, waiting: list[int], remove: str) -> None:
    """Also when it gets another time: it was not delivered yet."""
    session.execute(remove, [waiting[:1]])
    assert dequeue(session, 10) == []
    assert column(session, WAITING) == waiting[1:2]
    session.execute(RESUME)
    assert [lease.id for lease in drain(session)] == waiting[1:]


def test_one_that_was_delivered_goes_on_holding_the_channel_until_its_new_time(session: Session) -> None:
    make_channel(session, "default", ordered=True)
    ids = enqueue_many(session, ["default"] * 2)
    retry(session, dequeue(session))
    session.execute(PAUSE)
    assert dequeue(session, 10) == []
    assert column(session, WAITING) == ids[:1]

    session.execute("SELECT pgqueue_reschedule(%s, clock_timestamp() + interval '1 hour')", [ids[:1]])
    session.execute(RESUME)
    assert dequeue(session, 10) == []
    session.execute("SELECT pgqueue_reschedule(%s)", [ids[:1]])

    assert [lease.id for lease in drain(session)] == ids


def test_a_channel_that_is_not_ordered_any_more_lets_it_wait_alone(session: Session) -> None:
    make_channel(session, "default", ordered=True)
    [first] = send(session, "default", limits=[])
    retry(session, dequeue(session))
    session.execute(PAUSE)
    second = one(session, "SELECT id FROM pgqueue_enqueue('other')")
    assert dequeue(session, 10) == []

    make_channel(session, "default", ordered=False, max_concurrency=None)

    assert [lease.id for lease in dequeue(session, 10)] == [second]
    assert one(session, "SELECT held_until IS NULL AND waits_for >= 0 FROM pgqueue_message WHERE id = %s", first)


def test_a_message_that_was_made_ready_before_the_channel_was_ordered_keeps_no_place_from_it(session: Session) -> None:
    """It stands behind the one that waits. Each would wait for the other, and the channel would stand still."""
    make_channel(session, "default")
    make_channel(session, "other", queue="elsewhere", ordered=True)
    limit_set(session, "stripe", max_concurrency=1)
    [first] = send(session, "default")
    tick(session)
    assert one(session, "SELECT promoted_for > 0 FROM pgqueue_message WHERE id = %s", first)
    send(session, "other", queue="elsewhere")
    blocker = dequeue(session, queue="elsewhere")
    make_channel(session, "default", ordered=True)
    [urgent] = send(session, "default", priority=5)
    assert dequeue(session, 10) == []
    assert column(session, WAITING) == [urgent]
    settle(session, blocker)

    assert [lease.id for lease in drain(session)] == [urgent, first]


def test_those_behind_it_stay_in_their_order(session: Session) -> None:
    """They have the same limit, and would be set aside behind it in a channel without order."""
    make_channel(session, "default", ordered=True)
    limit_set(session, "stripe", max_concurrency=1)
    session.execute("SELECT pgqueue_limit_pause('stripe')")
    ids = send(session, "default", 5)
    assert dequeue(session, 10) == []
    assert column(session, WAITING) == ids[:1]
    session.execute("SELECT pgqueue_limit_resume('stripe')")
    assert [lease.id for lease in drain(session)] == ids


def test_nothing_is_to_be_repaired_while_it_waits(session: Session, waiting: list[int]) -> None:
    assert session.execute("SELECT * FROM pgqueue_find_unreachable()").fetchall() == []
    assert session.execute("SELECT * FROM pgqueue_repair()").fetchall() == [(0, 0, 0)]


def test_a_limit_that_is_dropped_or_loses_the_handler_lets_it_go(session: Session) -> None:
    make_channel(session, "strict", ordered=True)
    limit_set(session, "stripe", max_concurrency=1, handlers=["work"])
    session.execute("SELECT pgqueue_limit_pause('stripe')")
    ids = enqueue_many(session, ["strict"] * 4)
    assert dequeue(session, 10) == []
    limit_set(session, "stripe", handlers=[])
    [lease] = dequeue(session, 10)
    limit_set(session, "stripe", handlers=["work"])
    settle(session, [lease])
    assert dequeue(session, 10) == []
    session.execute("SELECT pgqueue_limit_drop('stripe')")
    assert [lease.id, *(lease.id for lease in drain(session))] == ids


def test_a_limit_that_another_transaction_holds_makes_it_wait(session: Session, business: Session) -> None:
    make_channel(session, "a")
    make_channel(session, "strict", ordered=True)
    limit_set(session, "stripe", max_concurrency=5)
    send(session, "a")
    tick(session)
    assert len(dequeue(business)) == 1
    ids = send(session, "strict", 2)
    assert dequeue(session, 10) == []
    assert column(session, WAITING) == ids[:1]
    business.commit()
    assert [lease.id for lease in drain(session)] == ids


def test_explain_names_what_it_waits_for(session: Session, waiting: list[int]) -> None:
    sentences = dict(session.execute("SELECT code, sentence FROM pgqueue_explain_message(%s)", [waiting[1]]).fetchall())
    assert sentences["ordered"] == (
        f"Channel strict is ordered, and message {waiting[0]} holds it, because it waits for the handler work. "
        "Messages that wait behind it: 2."
    )
