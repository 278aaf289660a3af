"""The rules for business transactions in docs/explanation/lock-order.md: who breaks one may meet a deadlock.

Each is a way to a circle that verification/formal/specs/LockOrder.tla has without that rule. PostgreSQL ends one of
the two.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg

from tests.support.sessions import Connect, Session, one, wait_for_lock
from tests.support.verbs import dequeue, enqueue, make_channel

DEADLOCK = ["40P01", "ok"]
# Longer than PostgreSQL takes to find a deadlock.
PATIENT = {"options": "-c lock_timeout=20s"}
LIFT = "SELECT pgqueue_channel_set('default', 'small', p_limits => '{\"max_size\": null}')"


def cancel(session: Session, *messages: int) -> None:
    session.execute("SELECT * FROM pgqueue_cancel(%s)", [list(messages)])


def answer(action: Callable[[], object]) -> str:
    try:
        action()
    except psycopg.Error as error:
        return error.sqlstate or "?"
    return "ok"


def answers(
    watcher: Session, waiting: Session, waits_for: Callable[[], object], closes: Callable[[], object]
) -> list[str]:
    """Return both answers: ``waiting`` waits, then the other closes the circle. The end of one lets the other go on."""
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(answer, waits_for)
        wait_for_lock(watcher, waiting)
        second = answer(closes)
        return sorted([first.result(200), second])


def test_two_cancels_against_the_order_of_ids(session: Session, connect: Connect) -> None:
    first, second = enqueue(session), enqueue(session)
    one_by_one, at_once = connect(**PATIENT), connect(**PATIENT)
    cancel(one_by_one, second)

    outcome = answers(
        session, at_once, lambda: cancel(at_once, first, second), lambda: cancel(one_by_one, first)
    )  # fmt: skip
    assert outcome == DEADLOCK


def test_a_cancel_after_a_dequeue(session: Session, connect: Connect) -> None:
    first, urgent = enqueue(session), enqueue(session, priority=1)
    worker, operator = connect(**PATIENT), connect(**PATIENT)
    assert [lease.id for lease in dequeue(worker)] == [urgent]

    outcome = answers(session, operator, lambda: cancel(operator, first, urgent), lambda: cancel(worker, first))
    assert outcome == DEADLOCK


def test_a_limit_that_is_edited_after_an_enqueue(session: Session, connect: Connect) -> None:
    """The enqueue gives up, and says busy; its transaction goes on, and the edit waits until that ends."""
    assert make_channel(session, "small", max_size=5) < make_channel(session, "smaller", max_size=5)
    # Their counts are there.
    enqueue(session, "small")
    enqueue(session, "smaller")
    # On a slow machine the server's look for deadlocks would meet the editor first.
    editor, producer = connect(options=f"{PATIENT['options']} -c deadlock_timeout=15s"), connect(**PATIENT)
    enqueue(editor, "smaller")
    enqueue(producer, "small")

    with ThreadPoolExecutor(2) as pool:
        asked = pool.submit(one, producer, "SELECT outcome FROM pgqueue_enqueue('work', p_channel => 'smaller')")
        wait_for_lock(session, producer)
        edited = pool.submit(answer, lambda: one(editor, LIFT))
        assert asked.result(30) == "busy"
        producer.commit()
        assert edited.result(30) == "ok"
