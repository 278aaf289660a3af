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
