"""A full channel that makes room: exact under racing sessions, and no session waits for the messages that it drops."""

from __future__ import annotations

from contextlib import suppress

import psycopg
import pytest

from tests.support.sessions import PATIENT, Connect, Session, column, one, together, until_it_waits
from tests.support.verbs import dequeue, drain, enqueue, fill, limit_set, make_channel, settle

DROPPERS = pytest.mark.parametrize("policy", ["drop_oldest", "replace"])
LIVE = "SELECT count(*) FROM pgqueue_message"
DROPPED = "SELECT id FROM pgqueue_archived_message WHERE outcome = 'dropped' ORDER BY id"
ASK = "SELECT outcome, dropped_ids FROM pgqueue_enqueue('work', '{}', %s)"


def ask(session: Session, channel: str = "small") -> tuple[str, list[int] | None]:
    [(outcome, dropped)] = session.execute(ASK, [channel]).fetchall()
    return outcome, dropped


def test_each_of_sixteen_racing_enqueuers_drops_another_message(session: Session, connect: Connect) -> None:
    make_channel(session, "small", max_size=5, full_policy="drop_oldest")
    fill(session, "small", 4)
    racers = [connect(autocommit=True, options=PATIENT) for _ in range(16)]

    answers = together(*(lambda racer=racer: ask(racer) for racer in racers))

    assert {outcome for outcome, _ in answers} == {"created"}
    assert one(session, LIVE) == 5
    answered = sorted(number for _, dropped in answers for number in dropped or ())
    assert len(answered) == 15
    assert answered == column(session, DROPPED)


@DROPPERS
def test_the_limit_holds_while_messages_come_and_go(session: Session, connect: Connect, policy: str) -> None:
    """Producers, a worker and plain INSERTs at once: each message is worked on, or dropped, once."""
    channel = make_channel(session, "small", max_size=3, full_policy=policy)
    writers = [connect(autocommit=True) for _ in range(3)]
    worker = connect(autocommit=True)
    running = [True]
    seen: list[int] = []
    taken: list[int] = []

    def write(writer: Session) -> int:
        return [ask(writer)[0] for _ in range(60)].count("created")

    def insert(writer: Session) -> int:
        query = "INSERT INTO pgqueue_message (channel_id, handler) SELECT %s, 'work' FROM generate_series(1, 2)"
        created = 0
        for _ in range(30):
            with suppress(psycopg.DatabaseError):  # full
                created += writer.execute(query, [channel]).rowcount
        return created

    def work() -> None:
        while running[0] or one(worker, LIVE):
            seen.append(one(worker, LIVE))
            taken.extend(settle(worker, dequeue(worker, 1)))

    def write_all() -> int:
        try:
            return sum(together(lambda: write(writers[0]), lambda: write(writers[1]), lambda: insert(writers[2])))
        finally:
            running[0] = False

    created, _ = together(write_all, work)

    assert max(seen) <= 3
    dropped = column(session, DROPPED)
    assert not set(dropped) & set(taken)
    assert len(dropped) + len(taken) == created
    assert column(session, "SELECT id FROM pgqueue_archived_message ORDER BY id") == sorted([*dropped, *taken])


@DROPPERS
def test_a_message_that_an_open_transaction_takes_is_not_dropped(
    session: Session, business: Session, policy: str
) -> None:
    make_channel(session, "small", max_size=2, full_policy=policy)
    fill(session, "small", 2)
    [taken] = dequeue(business)

    outcome, dropped = ask(session)
    assert (outcome, len(dropped or ())) == ("created", 1)
    assert taken.id not in (dropped or ())
    business.commit()
    settle(session, [taken])

    make_channel(session, "single", max_size=1, full_policy=policy)
    drain(session)
    fill(session, "single", 1)
    dequeue(business)
    assert ask(session, "single") == ("full", None)


def test_the_next_in_age_leaves_when_others_hold_the_oldest(session: Session, business: Session) -> None:
    make_channel(session, "small", max_size=40, full_policy="drop_oldest")
    fill(session, "small", 40)
    taken = dequeue(business, 30)

    outcome, dropped = ask(session)

    waiting = column(session, "SELECT id FROM pgqueue_message ORDER BY id")[30:]
    assert (outcome, dropped) == ("created", [max(lease.id for lease in taken) + 1])
    assert len(waiting) == 10


@DROPPERS
def test_a_rollback_brings_back_what_was_dropped(session: Session, business: Session, policy: str) -> None:
    make_channel(session, "small", max_size=2, full_policy=policy)
    fill(session, "small", 2)
    before = column(session, "SELECT id FROM pgqueue_message ORDER BY id")
    assert ask(business)[0] == "created"
    # They may be gone, so no session takes them meanwhile.
    taken = dequeue(session, 9)
    business.rollback()
    assert sorted(column(session, "SELECT id FROM pgqueue_message")) == before
    assert len(taken) + len(dequeue(session, 9)) == 2
    assert column(session, DROPPED) == []


MANY = "SELECT count(*) FROM pgqueue_enqueue_many('{w,w}', '{1,2}', '{a,b}', p_partial => %s) WHERE outcome = 'created'"
INSERT = """
WITH sent AS (
    INSERT INTO pgqueue_message (channel_id, handler)
    SELECT c.id, 'work' FROM pgqueue_channel AS c WHERE c.name IN ('a', 'b') RETURNING id
)
SELECT count(*) FROM sent
"""


@DROPPERS
@pytest.mark.parametrize("call", [MANY % "false", MANY % "true", INSERT], ids=["all or none", "partial", "insert"])
def test_one_statement_for_many_channels_takes_all_counts_before_it_drops(
    session: Session, business: Session, connect: Connect, policy: str, call: str
) -> None:
    """A session that holds the count of the second channel, and cancels a message to be dropped, does not wait."""
    make_channel(session, "a", max_size=1, full_policy=policy)
    make_channel(session, "b", max_size=9)
    oldest = enqueue(session, "a")
    enqueue(business, "b")
    producer = connect(autocommit=True, options=PATIENT)

    def cancel() -> None:
        assert one(business, "SELECT outcome FROM pgqueue_cancel(ARRAY[%s::bigint])", oldest) == "cancelled"
        business.commit()

    assert until_it_waits(session, producer, lambda: one(producer, call), cancel) == 2


@pytest.mark.parametrize("why", ["its own limit", "the limit of its handler", "its order key"])
def test_a_message_that_waits_apart_is_dropped_before_newer_ones(session: Session, why: str) -> None:
    """It is due for as long as it waits, though it stands in another index than ready ones."""
    make_channel(session, "small", max_size=4, full_policy="drop_oldest")
    limit_set(session, "stripe", max_concurrency=1, handlers=["limited"] if why == "the limit of its handler" else [])
    session.execute("SELECT pgqueue_limit_pause('stripe')")
    if why == "its own limit":
        first = enqueue(session, "small", limits=["stripe"])
    elif why == "the limit of its handler":
        first = one(session, "SELECT id FROM pgqueue_enqueue('limited', '{}', 'small')")
        assert dequeue(session) == []
    else:
        enqueue(session, "small", order_key="k")
        assert len(dequeue(session)) == 1
        first = enqueue(session, "small", order_key="k")
        assert dequeue(session) == []
    assert one(session, "SELECT waits_for IS NOT NULL FROM pgqueue_message WHERE id = %s", first)
    later = enqueue(session, "small", delay="1 hour")
    ready = [enqueue(session, "small") for _ in range(1 if why == "its order key" else 2)]

    dropped = [ask(session, "small")[1] for _ in range(3)]

    assert dropped[:2] == [[first], ready[:1]]
    assert [later] not in dropped
