"""A batch between sessions: whoever settles the last members at the same time, it ends once, and never stays open."""

from __future__ import annotations

from functools import partial
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.flow.settling import complete, in_background, settle, settle_crosswise, settle_together, take
from tests.support.sessions import Connect, Session, column, one, wait_for_lock
from tests.support.tables import empty_tables


@pytest.fixture(autouse=True)
def empty_line(transactional_db: None) -> None:
    empty_tables()


def open_batch(session: Session, count: int) -> int:
    with session.transaction():
        batch: int = one(session, "SELECT pgqueue_batch_open(%s, %s)", Jsonb(follower("done")), Jsonb(follower("dead")))
        session.execute("SELECT pgqueue_enqueue('member') FROM generate_series(1, %s)", [count])
        session.execute("SELECT pgqueue_batch_seal(%s)", [batch])
    return batch


def follower(handler: str) -> dict[str, Any]:
    return {"handler": handler, "channel": "default", "queue": "default"}


def followers(session: Session) -> list[str]:
    return column(session, "SELECT handler FROM pgqueue_message WHERE handler <> 'member'")


def test_the_last_two_members_at_once(session: Session, transactions: list[Session]) -> None:
    """The second has looked while the first one was free, and its transaction is still open: the first one waits."""
    open_batch(session, 2)
    [first, second] = take(session, 2)
    early, late, _ = transactions
    complete(early, [second])

    with in_background(partial(settle, late, [first])):
        wait_for_lock(session, late)
        assert followers(session) == []
        early.commit()
    assert followers(session) == ["done"]
    assert column(session, "SELECT id FROM pgqueue_batch_check()") == []


def test_the_one_before_rolls_back(session: Session, transactions: list[Session]) -> None:
    open_batch(session, 2)
    [first, second] = take(session, 2)
    early, late, _ = transactions
    complete(early, [second])

    with in_background(partial(settle, late, [first])):
        wait_for_lock(session, late)
        early.rollback()
    assert followers(session) == []
    complete(session, [second])
    assert followers(session) == ["done"]


def test_a_settlement_waits_for_nobody_while_a_member_is_free(session: Session, transactions: list[Session]) -> None:
    open_batch(session, 4)
    taken = take(session, 4)
    for number, open_ in enumerate(transactions):
        open_.execute("SET LOCAL lock_timeout = '1s'")
        complete(open_, [taken[number]])
    for open_ in transactions:
        open_.commit()
    complete(session, [taken[3]])
    assert followers(session) == ["done"]


@pytest.mark.parametrize("fate", ["killed", "rolled back"])
def test_the_last_one_ends_before_its_commit(session: Session, transactions: list[Session], fate: str) -> None:
    """Its member is outstanding again, and nothing has followed: the one who settles it ends the batch."""
    batch = open_batch(session, 1)
    taken = take(session, 1)
    last = transactions[0]
    complete(last, taken)
    assert followers(last) == ["done"]
    if fate == "killed":
        session.execute("SELECT pg_terminate_backend(%s, 10000)", [last.info.backend_pid])
        with pytest.raises(psycopg.OperationalError):
            last.commit()
    else:
        last.rollback()
    assert followers(session) == []
    assert one(session, "SELECT outstanding FROM pgqueue_batch_counts(ARRAY[%s::bigint])", batch) == 1
    complete(session, taken)
    assert followers(session) == ["done"]


STATEMENTS = ["pgqueue_batch_open", "enqueue", "pgqueue_batch_seal"]


@pytest.mark.parametrize("after", STATEMENTS)
def test_the_opener_is_killed_between_two_statements(session: Session, transactions: list[Session], after: str) -> None:
    opener = transactions[0]
    batch = one(opener, "SELECT pgqueue_batch_open(%s)", Jsonb(follower("done")))
    if after != "pgqueue_batch_open":
        opener.execute("SELECT pgqueue_enqueue('member')")
    if after == "pgqueue_batch_seal":
        opener.execute("SELECT pgqueue_batch_seal(%s)", [batch])
    session.execute("SELECT pg_terminate_backend(%s, 10000)", [opener.info.backend_pid])
    with pytest.raises(psycopg.OperationalError):
        opener.commit()
    for table in ("pgqueue_batch", "pgqueue_batch_member", "pgqueue_message"):
        assert one(session, f"SELECT count(*) FROM {table}") == 0


def test_a_member_that_is_being_added_keeps_the_batch_open(session: Session, transactions: list[Session]) -> None:
    batch = open_batch(session, 1)
    taken = take(session, 1)
    adder, late, _ = transactions
    assert one(adder, "SELECT pgqueue_batch_enter(%s)", batch) is None
    adder.execute("SELECT pgqueue_enqueue('member')")

    with in_background(partial(settle, late, taken)):
        wait_for_lock(session, late)
        adder.commit()
    assert followers(session) == []
    complete(session, take(session, 1))
    assert followers(session) == ["done"]


def test_a_batch_that_ends_meanwhile_takes_no_member(session: Session, transactions: list[Session]) -> None:
    batch = open_batch(session, 1)
    last, adder, _ = transactions
    complete(last, take(session, 1))
    answers: list[Any] = []
    with in_background(lambda: answers.append(one(adder, "SELECT pgqueue_batch_enter(%s)", batch))):
        wait_for_lock(session, adder)
        last.commit()
    assert answers[0]["message"] == f"batch {batch} is over"


def test_an_old_snapshot_does_not_leave_it_open(session: Session, transactions: list[Session]) -> None:
    open_batch(session, 2)
    [first, second] = take(session, 2)
    old = transactions[0]
    old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    old.execute("SELECT 1 FROM pgqueue_message")
    complete(session, [second])
    complete(old, [first])
    old.commit()
    assert followers(session) == []
    session.execute("SELECT pgqueue_sweep()")
    assert followers(session) == ["done"]
    session.execute("SELECT pgqueue_sweep()")
    assert followers(session) == ["done"]
    assert one(session, "SELECT count(*) FROM pgqueue_batch_unsure") == 0


def test_the_wait_of_the_last_one_has_a_bound(session: Session, transactions: list[Session]) -> None:
    """The one before stays open: the last one leaves the batch to the next sweep."""
    batch = open_batch(session, 2)
    [first, second] = take(session, 2)
    early = transactions[0]
    complete(early, [second])
    complete(session, [first])
    session.execute("SELECT pgqueue_sweep()")
    assert one(session, "SELECT count(*) FROM pgqueue_batch_unsure WHERE batch_id = %s", batch) == 1
    early.commit()
    session.execute("SELECT pgqueue_sweep()")
    assert followers(session) == ["done"]
    assert one(session, "SELECT count(*) FROM pgqueue_batch_unsure") == 0


def test_the_one_before_stays_open_and_rolls_back(session: Session, transactions: list[Session]) -> None:
    open_batch(session, 2)
    [first, second] = take(session, 2)
    complete(transactions[0], [second])
    complete(session, [first])
    transactions[0].rollback()
    session.execute("SELECT pgqueue_sweep()")
    assert followers(session) == []
    complete(session, [second])
    assert followers(session) == ["done"]


def test_a_batch_that_an_open_transaction_ends_refuses_a_member(session: Session, transactions: list[Session]) -> None:
    batch = open_batch(session, 1)
    last, adder, _ = transactions
    complete(last, take(session, 1))
    assert one(adder, "SELECT pgqueue_batch_enter(%s)", batch)["sqlstate"] == "PGQ06"
    assert one(adder, "SELECT pgqueue_batch_enter(-1)")["sqlstate"] == "PGQ07"
    last.rollback()
    assert one(adder, "SELECT pgqueue_batch_enter(%s)", batch) is None


def test_settlements_of_two_batches_in_opposite_order_both_commit(
    session: Session, transactions: list[Session]
) -> None:
    """Each holds the last member of a batch, and waits for the other one's: no deadlock, and both batches end."""
    open_batch(session, 2)
    open_batch(session, 2)
    taken = take(session, 4)
    left, right, _ = transactions
    settle_crosswise(left, right, taken)
    session.execute("SELECT pgqueue_sweep()")
    assert followers(session) == ["done", "done"]


@pytest.mark.parametrize("size", [1, 3])
def test_many_sessions_settle_many_batches(session: Session, connect: Connect, size: int) -> None:
    """Each ends once, whichever statements meet at its last members."""
    batches = [open_batch(session, 1 + number % 5) for number in range(60)]
    taken = take(session, 1000)
    settle_together(connect, taken, size)
    assert followers(session) == ["done"] * len(batches)
    assert column(session, "SELECT id FROM pgqueue_batch WHERE finished_at IS NULL") == []
    assert one(session, "SELECT count(*) FROM pgqueue_batch_member") == 0
