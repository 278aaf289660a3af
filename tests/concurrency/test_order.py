"""C8 where transactions meet: what waits is not overtaken because of what another one holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from tests.support.sessions import IMPATIENT, Connect, Session, wait_for_lock
from tests.support.verbs import dequeue, enqueue, enqueue_many, make_channel, tick

HALT = 7_311  # an advisory lock


@contextmanager
def halt(session: Session, function: str) -> Iterator[Callable[[], object]]:
    """Calls of `function` wait before they begin, until what is yielded is called."""
    arguments, result = session.execute(
        "SELECT pg_get_function_arguments(oid), pg_get_function_result(oid) FROM pg_proc WHERE proname = %s", [function]
    ).fetchone()
    passed = ", ".join(f"${place}" for place, _ in enumerate(arguments.split(","), 1))
    with session.transaction():
        session.execute(f"ALTER FUNCTION {function} RENAME TO {function}_halted")
        session.execute(
            f"CREATE FUNCTION {function}({arguments}) RETURNS {result} LANGUAGE plpgsql AS $$ BEGIN "
            f"PERFORM pg_advisory_xact_lock_shared({HALT}); RETURN {function}_halted({passed}); END $$"
        )
    session.execute("SELECT pg_advisory_lock(%s)", [HALT])
    try:
        yield lambda: session.execute("SELECT pg_advisory_unlock_all()")
    finally:
        session.execute("SELECT pg_advisory_unlock_all()")
        with session.transaction():
            session.execute(f"DROP FUNCTION {function}")
            session.execute(f"ALTER FUNCTION {function}_halted RENAME TO {function}")


def test_a_lane_that_shows_up_during_a_dequeue_is_not_overtaken_by_news_of_its_channel(
    session: Session, business: Session, connect: Connect
) -> None:
    """It took its place in an open transaction, before the one at which the line began when the dequeue looked."""
    make_channel(session, "a")
    make_channel(session, "b")
    waiting = enqueue_many(session, "a" * 3)
    assert [lease.id for lease in dequeue(business)] == waiting[:1]
    # As many as are taken: of held channels, which come in a random order, only "a" has a message left.
    enqueue_many(session, "b" * 2)
    holder = connect(options=IMPATIENT)
    assert [lease.channel for each in (session, holder) for lease in dequeue(each)] == ["b", "b"]
    enqueue(session, "a")

    dequeuer = connect(autocommit=True)
    with ThreadPoolExecutor(1) as pool, halt(session, "pgqueue_take_shared") as go_on:
        taken = pool.submit(dequeue, dequeuer)
        wait_for_lock(session, dequeuer)
        business.commit()
        go_on()
        leases = taken.result(200)

    assert [lease.id for lease in leases] == waiting[1:2]


def test_messages_that_an_open_dequeue_has_left_are_not_overtaken_by_one_that_is_alone(
    session: Session, business: Session, connect: Connect
) -> None:
    """It could go straight from its arrival to the dequeue: those before it are locked, but not their messages."""
    make_channel(session, "a")
    make_channel(session, "b")
    enqueue_many(session, "b" * 2)
    holder = connect(options=IMPATIENT)
    assert [lease.channel for each in (session, holder) for lease in dequeue(each)] == ["b", "b"]
    waiting = [enqueue(session, "a") for _ in range(2)]
    assert [lease.id for lease in dequeue(business)] == waiting[:1]
    holder.commit()  # and no lane stands in line
    newest = enqueue(session, "a")

    assert [lease.id for _ in range(2) for lease in dequeue(session)] == [waiting[1], newest]


def test_messages_of_a_late_transaction_that_an_open_dequeue_has_left_are_not_overtaken(
    session: Session, business: Session, connect: Connect
) -> None:
    """Its arrivals have an xid below the floor, and the open dequeue holds them."""
    make_channel(session, "a")
    waiting = [enqueue(business, "a") for _ in range(2)]
    tick(session, 3)
    business.commit()
    assert [lease.id for lease in dequeue(connect(options=IMPATIENT))] == waiting[:1]
    newest = enqueue(session, "a")

    assert [lease.id for _ in range(2) for lease in dequeue(session)] == [waiting[1], newest]
