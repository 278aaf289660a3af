"""A dequeue that finds all lanes held by others looks beside them, and outside of the line only if something waits."""

from __future__ import annotations

import pytest

from tests.support.sessions import Session
from tests.support.verbs import dequeue, enqueue, enqueue_many, make_channel, settle, tick


@pytest.fixture
def held(session: Session, business: Session) -> None:
    """An open transaction holds the only lane of the line, and the only message of it."""
    make_channel(session, "a")
    make_channel(session, "b")
    enqueue(session, "b", priority=9)
    settle(session, dequeue(session))
    enqueue(session, "a")
    tick(session)
    assert len(dequeue(business)) == 1


def functions(session: Session) -> tuple[int, set[str]]:
    """Return how many messages a dequeue finds, and the functions that it calls."""
    with session.transaction():
        session.execute("SET LOCAL track_functions = 'all'")
        found = len(dequeue(session))
        rows = session.execute("SELECT funcname FROM pg_stat_xact_user_functions").fetchall()
    return found, {name for (name,) in rows}


@pytest.mark.usefixtures("held")
def test_a_short_line_that_is_held_takes_few_steps(session: Session) -> None:
    """Many consumers ask at once for the one message that another has just taken."""
    found, called = functions(session)

    assert found == 0
    assert called == {"pgqueue_dequeue", "pgqueue_take_shared"}


def test_an_arrival_of_the_lane_that_is_held_takes_few_steps(session: Session, business: Session) -> None:
    """The next message of the channel came before the one that is held was taken, and another consumer took it."""
    make_channel(session, "a")
    enqueue(session, "a")
    tick(session)
    assert len(dequeue(business)) == 1
    enqueue(session, "a")
    assert len(dequeue(session)) == 1
    assert session.execute("SELECT lazy FROM pgqueue_arrival").fetchall() == [(True,)]

    found, called = functions(session)

    assert found == 0
    assert "pgqueue_fold" in called
    assert "pgqueue_dequeue_many" not in called


@pytest.mark.usefixtures("held")
def test_messages_beside_the_one_that_is_held_are_found(session: Session) -> None:
    enqueue_many(session, ["a"] * 2)

    assert [len(dequeue(session)) for _ in range(3)] == [1, 1, 0]


@pytest.mark.usefixtures("held")
def test_a_message_that_is_due_is_found(session: Session) -> None:
    late = enqueue(session, "b", delay="1 hour")
    assert dequeue(session) == []
    session.execute("UPDATE pgqueue_message SET dequeue_at = clock_timestamp() WHERE id = %s", [late])

    assert [lease.id for lease in dequeue(session)] == [late]


@pytest.mark.usefixtures("held")
def test_a_message_whose_arrival_can_wait_is_found(session: Session) -> None:
    late = enqueue(session, "b")
    session.execute("UPDATE pgqueue_arrival SET lazy = true WHERE floor_id = %s", [late])

    assert [lease.id for lease in dequeue(session)] == [late]
