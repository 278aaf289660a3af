"""C7: max_size holds exactly, and costs only the channel's own enqueuers."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.support.sessions import PATIENT, Connect, Session, column, one, together, until_it_waits
from tests.support.verbs import dequeue, drain, enqueue, enqueue_many, fill, make_channel, settle


def said(session: Session, channel: str) -> str:
    """Return the outcome of one message more."""
    return one(session, "SELECT outcome FROM pgqueue_enqueue('work', '{}', %s)", channel)


@pytest.mark.parametrize("policy", ["error", "drop"])
def test_sixteen_enqueuers_race_for_the_last_place(session: Session, connect: Connect, policy: str) -> None:
    make_channel(session, "small", max_size=5, full_policy=policy)
    fill(session, "small", 4)
    racers = [connect(autocommit=True, options=PATIENT) for _ in range(16)]

    answers = together(*(lambda racer=racer: answer(racer) for racer in racers))

    assert sorted(answers) == sorted(["created"] + ["full" if policy == "error" else "dropped"] * 15)
    assert one(session, "SELECT count(*) FROM pgqueue_message") == 5


def answer(racer: Session) -> str:
    return said(racer, "small")


@pytest.mark.parametrize("fresh", [True, False])
def test_enqueuers_in_opposite_order_get_an_answer(session: Session, connect: Connect, fresh: bool) -> None:
    """Success or busy, never a deadlock (40P01). `fresh`: these channels have never had a message."""
    for name in "ab":
        make_channel(session, name, max_size=100)
        if not fresh:
            fill(session, name, 1)
    pair = [connect(), connect()]
    enqueue(pair[0], "a")
    enqueue(pair[1], "b")

    def second(place: int, name: str) -> str:
        outcome = said(pair[place], name)
        if outcome == "created":
            pair[place].commit()
        else:
            pair[place].rollback()
        return outcome

    answers = together(lambda: second(0, "b"), lambda: second(1, "a"))

    assert answers in (["created", "busy"], ["busy", "created"])
    assert len(drain(session)) == (2 if fresh else 4)


def test_one_statement_for_many_channels_takes_them_in_order(session: Session, connect: Connect) -> None:
    names = ["c", "a", "d", "b"]
    for name in names:
        make_channel(session, name, max_size=10_000)
    writers = [connect(autocommit=True, options=PATIENT) for _ in range(4)]

    def write(place: int) -> None:
        order = names[place:] + names[:place]
        for _ in range(25):
            enqueue_many(writers[place], order if place % 2 else reversed(order))

    together(*(lambda place=place: write(place) for place in range(4)))

    assert one(session, "SELECT count(*) FROM pgqueue_message") == 400


def test_only_enqueuers_of_the_same_channel_wait(session: Session, business: Session, other: Session) -> None:
    make_channel(session, "small", max_size=100)
    make_channel(session, "small too", max_size=100)
    make_channel(session, "free")
    fill(session, "small", 3)
    leases = dequeue(session, 2)
    enqueue(business, "small")

    enqueue(other, "small too")
    enqueue(other, "free")
    settle(other, leases[:1])
    settle(other, leases[1:], "dead_letter", ["refused"])
    assert len(dequeue(other, 10)) == 3
    one(other, "SELECT pgqueue_channel_purge('default', 'small')")
    other.execute("SELECT * FROM pgqueue_sweep()")
    make_channel(other, "small", max_size=50)
    assert said(other, "small") == "busy"  # this one waits, until its lock_timeout
    business.commit()
    enqueue(other, "small")


def test_a_waiting_enqueuer_sees_what_was_taken_meanwhile(
    session: Session, business: Session, connect: Connect
) -> None:
    make_channel(session, "small", max_size=2)
    fill(session, "small", 1)
    waiter = connect(autocommit=True, options=PATIENT)
    enqueue(business, "small")

    assert until_it_waits(session, waiter, lambda: said(waiter, "small"), business.commit) == "full"


def test_an_enqueuer_that_rolls_back_gives_its_place_back(session: Session, business: Session) -> None:
    make_channel(session, "small", max_size=1)
    enqueue(business, "small")
    business.rollback()
    with session.transaction(), suppress(ZeroDivisionError):
        with session.transaction():
            enqueue(session, "small")
            raise ZeroDivisionError
        raise AssertionError

    enqueue(session, "small")

    assert said(session, "small") == "full"


def live_count(session: Session) -> int:
    return one(session, "SELECT count(*) FROM pgqueue_message")


def fill_up(session: Session, name: str) -> int:
    """How many messages the channel still takes."""
    for count in range(100):
        if said(session, name) == "full":
            return count
    raise AssertionError("it takes everything")


def test_a_limit_that_is_lifted_while_messages_come(session: Session) -> None:
    make_channel(session, "small", max_size=3)
    assert fill_up(session, "small") == 3
    make_channel(session, "small", max_size=None)
    fill(session, "small", 5)
    make_channel(session, "small", max_size=10)

    assert fill_up(session, "small") == 2


def test_a_limit_that_is_set_when_messages_are_there(session: Session) -> None:
    make_channel(session, "small")
    fill(session, "small", 4)
    make_channel(session, "small", max_size=5)
    settle(session, dequeue(session, 2))

    assert fill_up(session, "small") == 3
    assert live_count(session) == 5


def test_a_limit_that_comes_while_an_enqueue_is_open(session: Session, business: Session) -> None:
    """Two may slip in together then; afterwards the limit holds again."""
    make_channel(session, "small")
    fill(business, "small", 2)
    make_channel(session, "small", max_size=3)
    fill(session, "small", 1)
    business.commit()
    assert live_count(session) == 3
    drain(session)
    session.execute("SELECT * FROM pgqueue_sweep()")

    assert fill_up(session, "small") == 3


def test_a_limit_that_is_raised_and_lowered(session: Session) -> None:
    make_channel(session, "small", max_size=3)
    assert fill_up(session, "small") == 3
    make_channel(session, "small", max_size=5)
    assert fill_up(session, "small") == 2
    make_channel(session, "small", max_size=2)
    assert fill_up(session, "small") == 0
    settle(session, dequeue(session, 4))
    assert fill_up(session, "small") == 1


def test_every_way_out_makes_room(session: Session) -> None:
    make_channel(session, "small", max_size=8)
    assert fill_up(session, "small") == 8
    settle(session, dequeue(session, 1))
    settle(session, dequeue(session, 1), "dead_letter", ["refused"])
    session.execute("SELECT * FROM pgqueue_pop()")
    settle(session, dequeue(session, 1), "defer")  # stays
    assert live_count(session) == 5
    assert fill_up(session, "small") == 3
    assert one(session, "SELECT messages FROM pgqueue_channel_purge('default', 'small')") == 8
    assert fill_up(session, "small") == 8


def test_the_limit_holds_while_messages_come_and_go(session: Session, connect: Connect) -> None:
    make_channel(session, "small", max_size=3)
    writers = [connect(autocommit=True) for _ in range(4)]
    worker = connect(autocommit=True)
    running = [True]
    seen: list[int] = []
    taken: list[int] = []

    def write(writer: Session) -> int:
        created = 0
        for _ in range(60):
            if answer(writer) == "created":
                created += 1
        return created

    def work() -> None:
        while running[0] or live_count(session):
            seen.append(live_count(worker))
            taken.extend(settle(worker, dequeue(worker, 2)))

    def write_all() -> int:
        try:
            return sum(together(*(lambda writer=writer: write(writer) for writer in writers)))
        finally:
            running[0] = False

    created, _ = together(write_all, work)

    assert max(seen) <= 3
    assert sorted(taken) == sorted(column(session, "SELECT id FROM pgqueue_archived_message"))
    assert len(taken) == created
    assert fill_up(session, "small") == 3
