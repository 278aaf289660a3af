"""Messages that wait for others, between sessions: each is let go once, and none waits for ever."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg
import pytest

from tests.flow.settling import complete, in_background, settle, settle_crosswise, settle_together, take
from tests.support.sessions import Connect, Session, column, one, together, wait_for_lock
from tests.support.tables import empty_tables


@pytest.fixture(autouse=True)
def empty_line(transactional_db: None) -> None:
    empty_tables()


PUT = "SELECT id FROM pgqueue_enqueue_after(%s, %s, 'load')"


def put(session: Session, count: int) -> list[int]:
    return column(session, "SELECT (pgqueue_enqueue('member')).id FROM generate_series(1, %s)", count)


def wait_for(session: Session, ids: list[int], on_dead: str = "cancel") -> int:
    found: int = one(session, PUT, ids, on_dead)
    return found


def ready(session: Session) -> list[str]:
    return column(session, "SELECT handler FROM pgqueue_message WHERE status = 1")


def kill(session: Session, victim: Session) -> None:
    session.execute("SELECT pg_terminate_backend(%s, 10000)", [victim.info.backend_pid])
    with pytest.raises(psycopg.OperationalError):
        victim.commit()


def test_the_last_two_at_once(session: Session, transactions: list[Session]) -> None:
    wait_for(session, put(session, 2))
    [first, second] = take(session, 2)
    early, late, _ = transactions
    complete(early, [second])
    with in_background(partial(settle, late, [first])):
        wait_for_lock(session, late)
        assert ready(session) == []
        early.commit()
    assert ready(session) == ["load"]
    assert column(session, "SELECT id FROM pgqueue_batch") == []


def test_a_settlement_waits_for_nobody_while_another_one_is_left(
    session: Session,
    transactions: list[Session],
) -> None:
    wait_for(session, put(session, 4))
    taken = take(session, 4)
    for number, open_ in enumerate(transactions):
        open_.execute("SET LOCAL lock_timeout = '1s'")
        complete(open_, [taken[number]])
    for open_ in transactions:
        open_.commit()
    complete(session, [taken[3]])
    assert ready(session) == ["load"]


@pytest.mark.parametrize("fate", ["killed", "rolled back"])
@pytest.mark.parametrize("how", ["completed", "dead"])
def test_the_last_one_ends_before_its_commit(
    session: Session,
    transactions: list[Session],
    fate: str,
    how: str,
) -> None:
    load = wait_for(session, put(session, 1))
    taken = take(session, 1)
    last = transactions[0]
    if how == "completed":
        complete(last, taken)
    else:
        last.execute("SELECT pgqueue_dead_letter(%s, %s, '{no}')", [[taken[0][0]], [taken[0][1]]])
    if fate == "killed":
        kill(session, last)
    else:
        last.rollback()
    assert ready(session) == []
    assert one(session, "SELECT waits_for FROM pgqueue_message WHERE id = %s", load) == -2
    complete(session, taken)
    assert ready(session) == ["load"]


@pytest.mark.parametrize("fate", ["killed", "rolled back"])
def test_the_enqueue_ends_before_its_commit(session: Session, transactions: list[Session], fate: str) -> None:
    ids = put(session, 1)
    wait_for(transactions[0], ids)
    if fate == "killed":
        kill(session, transactions[0])
    else:
        transactions[0].rollback()
    complete(session, take(session, 1))
    for table in ("pgqueue_batch", "pgqueue_batch_member", "pgqueue_message"):
        assert one(session, f"SELECT count(*) FROM {table}") == 0


LEFTOVERS = ("pgqueue_batch", "pgqueue_batch_member", "pgqueue_batch_lost", "pgqueue_batch_unsure")


def left_in_tables(session: Session) -> list[str]:
    return [table for table in LEFTOVERS if one(session, f"SELECT count(*) FROM {table}") > 0]


@pytest.mark.parametrize("archive", ["full", "none"])
def test_no_settlement_waits_for_a_client_that_waits_for_its_message(
    session: Session,
    transactions: list[Session],
    archive: str,
) -> None:
    """The client's commit looks again. What has left no trace counts as completed."""
    session.execute("SELECT pgqueue_channel_set('default', 'default', %s)", [f'{{"archive": "{archive}"}}'])
    wait_for(transactions[0], put(session, 1))
    session.execute("SET lock_timeout = '100ms'")
    complete(session, take(session, 1))
    assert ready(session) == []
    transactions[0].commit()
    assert ready(session) == ["load"]
    assert left_in_tables(session) == []


def test_one_that_dies_before_the_commit_is_lost(session: Session, transactions: list[Session]) -> None:
    client = transactions[0]
    load = wait_for(client, put(session, 1))
    last = wait_for(client, [load], "run")
    [(id, token)] = take(session, 1)  # noqa: A001
    session.execute("SELECT pgqueue_dead_letter(%s, %s, '{no}')", [[id], [token]])
    client.commit()
    assert column(session, "SELECT id FROM pgqueue_archived_message WHERE outcome = 'cancelled'") == [load]
    assert column(session, "SELECT id FROM pgqueue_message WHERE status = 1") == [last]
    assert left_in_tables(session) == []


def test_one_that_the_client_settles_itself(session: Session, transactions: list[Session]) -> None:
    """As an atomic handler does that enqueues what is to run after it."""
    wait_for(transactions[0], put(session, 1))
    settle(transactions[0], take(session, 1))
    assert ready(session) == ["load"]


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_settlement_that_is_open_at_the_commit(session: Session, transactions: list[Session], end: str) -> None:
    """The commit does not wait for it either. The next sweep knows."""
    ids = put(session, 1)
    taken = take(session, 1)
    settling, client, _ = transactions
    complete(settling, taken)
    client.execute("SET lock_timeout = '100ms'")
    wait_for(client, ids)
    client.commit()
    session.execute("SELECT pgqueue_sweep()")
    assert ready(session) == []
    getattr(settling, end)()
    session.execute("SELECT pgqueue_sweep()")
    if end == "rollback":
        complete(session, taken)
    assert ready(session) == ["load"]
    assert left_in_tables(session) == []


def test_a_settlement_meets_the_commit(session: Session, transactions: list[Session]) -> None:
    """From its look on, the commit holds the message, so that the settlement sees who waits."""
    ids = put(session, 1)
    taken = take(session, 1)
    client, late, _ = transactions
    wait_for(client, ids)
    client.execute("SET CONSTRAINTS ALL IMMEDIATE")
    with in_background(partial(settle, late, taken)):
        wait_for_lock(session, late)
        client.commit()
    assert ready(session) == ["load"]


def test_a_settlement_meets_the_commit_of_a_second_one(session: Session, transactions: list[Session]) -> None:
    """The message has its mark from the first one."""
    ids = put(session, 1)
    taken = take(session, 1)
    wait_for(session, ids)
    client, late, _ = transactions
    wait_for(client, ids)
    client.execute("SET CONSTRAINTS ALL IMMEDIATE")
    with in_background(partial(settle, late, taken)):
        wait_for_lock(session, late)
        client.commit()
    assert ready(session) == ["load", "load"]


def test_clients_and_settlements_in_opposite_order(session: Session, transactions: list[Session]) -> None:
    [first, second] = put(session, 2)
    taken = take(session, 2)
    client, other, settling = transactions
    for open_ in transactions:
        open_.execute("SET LOCAL lock_timeout = '100ms'")
    wait_for(client, [second])
    wait_for(other, [first])
    complete(settling, [taken[0]])
    wait_for(client, [first])
    wait_for(other, [second])
    complete(settling, [taken[1]])
    for open_ in transactions:
        open_.commit()
    session.execute("SELECT pgqueue_sweep()")
    assert ready(session) == ["load"] * 4


def test_an_enqueue_under_an_old_snapshot(session: Session, transactions: list[Session]) -> None:
    ids = put(session, 2)
    client = transactions[0]
    client.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    wait_for(client, ids)
    [first, second] = take(session, 2)
    complete(session, [first])
    client.commit()
    session.execute("SELECT pgqueue_sweep()")
    assert ready(session) == []
    complete(session, [second])
    assert ready(session) == ["load"]


@pytest.mark.parametrize("when", ["before the commit", "before the seal"])
def test_one_that_waits_no_more_before_others_know_it(session: Session, transactions: list[Session], when: str) -> None:
    ids = put(session, 2)
    settling, client, _ = transactions
    complete(settling, take(session, 1))
    load = wait_for(client, ids)
    if when == "before the commit":
        client.execute("SELECT pgqueue_cancel(ARRAY[%s::bigint])", [load])
    client.commit()
    session.execute("SELECT pgqueue_cancel(ARRAY[%s::bigint])", [load])
    session.execute("SELECT pgqueue_sweep()")
    assert left_in_tables(session) == []


def test_no_row_of_the_future_or_of_another_transaction_is_mine(session: Session, transactions: list[Session]) -> None:
    """The id of a row that is two billion transactions old looks like one of the future."""
    put(session, 1)
    mine = "SELECT pgqueue_is_mine(m.xmin) FROM pgqueue_message AS m"
    assert column(session, mine) == [False]
    open_ = transactions[0]
    assert one(open_, "SELECT pg_current_xact_id() IS NOT NULL")
    put(session, 1)
    open_.execute("SAVEPOINT one")
    put(open_, 1)
    open_.execute("RELEASE SAVEPOINT one")
    assert column(open_, f"{mine} ORDER BY m.id") == [False, False, True]
    future = "((pg_current_xact_id()::text::bigint + 1000000000) % 4294967296)::text::xid"
    assert one(open_, f"SELECT pgqueue_is_mine({future})") is False


@pytest.mark.parametrize("what", ["count", "dedupe key"])
def test_an_enqueue_that_waits_for_its_channel_or_key_holds_no_message(
    session: Session,
    transactions: list[Session],
    what: str,
) -> None:
    """Another transaction, which enqueues first and settles last, would wait in a circle."""
    if what == "count":
        session.execute("SELECT pgqueue_channel_set('default', 'small', %s)", ['{"max_size": 10}'])
    ids = put(session, 1)
    taken = take(session, 1)
    other, late, _ = transactions
    more = "p_channel => 'small'" if what == "count" else "p_dedupe_key => 'once'"
    other.execute(f"SELECT pgqueue_enqueue('first', {more})")
    answers: list[str] = []

    def enqueue() -> None:
        answers.append(one(late, f"SELECT outcome FROM pgqueue_enqueue_after(%s, 'cancel', 'load', {more})", ids))
        late.commit()

    with in_background(enqueue):
        wait_for_lock(session, late)
        other.execute("SET LOCAL lock_timeout = '300ms'")
        complete(other, taken)
        other.commit()
    assert answers == ["created" if what == "count" else "duplicate"]
    assert ready(session) == (["first", "load"] if what == "count" else ["first"])


def test_an_enqueue_that_is_refused_leaves_nothing(session: Session, transactions: list[Session]) -> None:
    """Neither its message, nor what it has dropped or marked, nor the lock of the count."""
    session.execute(
        "SELECT pgqueue_channel_set('default', 'small', %s)", ['{"max_size": 1, "full_policy": "drop_oldest"}']
    )
    kept = one(session, "SELECT id FROM pgqueue_enqueue('kept', p_channel => 'small')")
    [known] = put(session, 1)
    refused_ = transactions[0]
    found = refused_.execute(
        "SELECT id, outcome, created_at, dropped_ids FROM pgqueue_enqueue_after(%s, 'run', 'x', p_channel => 'small')",
        [[known, 10**12]],
    ).fetchone()
    assert found == (None, "invalid", None, None)
    assert column(session, "SELECT dropped_ids[1] FROM pgqueue_enqueue('next', p_channel => 'small')") == [kept]
    complete(session, take(session, 2))
    refused_.commit()
    assert ready(session) == []


def test_an_operator_who_holds_the_message_does_not_hold_the_settlement(
    session: Session,
    transactions: list[Session],
) -> None:
    """The next sweep lets it go."""
    load = wait_for(session, put(session, 1))
    transactions[0].execute("SELECT pgqueue_edit(%s, '{}')", [load])
    session.execute("SET lock_timeout = '100ms'")
    complete(session, take(session, 1))
    assert ready(session) == []
    transactions[0].commit()
    session.execute("SELECT pgqueue_sweep()")
    assert ready(session) == ["load"]
    assert one(session, "SELECT count(*) FROM pgqueue_batch_unsure") == 0


def test_the_sweep_goes_on_along_the_chain(session: Session, transactions: list[Session]) -> None:
    load = wait_for(session, put(session, 1))
    last = wait_for(session, [load])
    transactions[0].execute("SELECT pgqueue_edit(%s, '{}')", [load])
    [(id, token)] = take(session, 1)  # noqa: A001
    session.execute("SELECT pgqueue_dead_letter(%s, %s, '{no}')", [[id], [token]])
    transactions[0].commit()
    session.execute("SELECT pgqueue_sweep()")
    found = column(session, "SELECT id FROM pgqueue_archived_message WHERE outcome = 'cancelled' ORDER BY id")
    assert found == [load, last]


@pytest.mark.parametrize("verb", ["pgqueue_cancel", "pgqueue_discard"])
def test_it_is_given_up_while_the_last_one_is_settled(
    session: Session,
    transactions: list[Session],
    verb: str,
) -> None:
    load = wait_for(session, put(session, 1))
    transactions[0].execute(f"SELECT {verb}(ARRAY[%s::bigint])", [load])
    complete(session, take(session, 1))
    transactions[0].commit()
    session.execute("SELECT pgqueue_sweep()")
    assert ready(session) == []
    assert left_in_tables(session) == []


def test_an_old_snapshot_does_not_leave_it_waiting(session: Session, transactions: list[Session]) -> None:
    wait_for(session, put(session, 2))
    [first, second] = take(session, 2)
    old = transactions[0]
    old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    old.execute("SELECT 1 FROM pgqueue_message")
    complete(session, [second])
    complete(old, [first])
    old.commit()
    session.execute("SELECT pgqueue_sweep()")
    assert ready(session) == ["load"]


def dead(session: Session) -> int:
    put(session, 1)
    [(id, token)] = take(session, 1)  # noqa: A001
    session.execute("SELECT pgqueue_dead_letter(%s, %s, '{no}')", [[id], [token]])
    return id


def test_a_redrive_meets_the_last_other_one(session: Session, transactions: list[Session]) -> None:
    """The settlement waits for the redrive, and sees the new message."""
    letter = dead(session)
    wait_for(session, [letter, *put(session, 1)], "wait")
    taken = take(session, 1)
    redriver, late, _ = transactions
    redriver.execute("SELECT pgqueue_redrive(ARRAY[%s::bigint])", [letter])
    with in_background(partial(settle, late, taken)):
        wait_for_lock(session, late)
        redriver.commit()
    assert ready(session) == ["member"]
    complete(session, take(session, 1))
    assert ready(session) == ["load"]


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_an_enqueue_meets_the_redrive_of_its_dead_letter(
    session: Session,
    transactions: list[Session],
    end: str,
) -> None:
    letter = dead(session)
    redriver, client, _ = transactions
    redriver.execute("SELECT pgqueue_redrive(ARRAY[%s::bigint])", [letter])
    client.execute("SET lock_timeout = '100ms'")
    wait_for(client, [letter], "wait")
    client.commit()
    getattr(redriver, end)()
    session.execute("SELECT pgqueue_sweep()")
    if end == "rollback":
        session.execute("SELECT pgqueue_redrive(ARRAY[%s::bigint])", [letter])
    assert ready(session) == ["member"]
    complete(session, take(session, 1))
    assert ready(session) == ["load"]


def test_a_redrive_before_the_commit_of_the_enqueue(session: Session, transactions: list[Session]) -> None:
    letter = dead(session)
    wait_for(transactions[0], [letter], "wait")
    session.execute("SELECT pgqueue_redrive(ARRAY[%s::bigint])", [letter])
    transactions[0].commit()
    assert ready(session) == ["member"]
    complete(session, take(session, 1))
    assert ready(session) == ["load"]


def test_settlements_in_opposite_order_both_commit(session: Session, transactions: list[Session]) -> None:
    ids = put(session, 4)
    wait_for(session, ids[:2])
    wait_for(session, ids[2:])
    taken = take(session, 4)
    left, right, _ = transactions
    settle_crosswise(left, right, taken)
    session.execute("SELECT pgqueue_sweep()")
    assert ready(session) == ["load", "load"]


def test_many_sessions_settle_what_many_wait_for(session: Session, connect: Connect) -> None:
    """Some wait for one, some for many, of which others wait for the same; each is let go once."""
    ids = put(session, 200)
    loads = [wait_for(session, ids[number % 150 : number % 150 + 1 + number % 40]) for number in range(60)]
    taken = take(session, 1000)
    assert len(taken) == len(ids)
    settle_together(connect, taken, 3)
    assert column(session, "SELECT id FROM pgqueue_message WHERE status = 1 ORDER BY id") == loads
    for table in ("pgqueue_batch", "pgqueue_batch_member", "pgqueue_batch_unsure"):
        assert one(session, f"SELECT count(*) FROM {table}") == 0


def test_enqueues_beside_settlements(session: Session, connect: Connect) -> None:
    """Messages that are settled at this moment: none is missed."""
    ids = put(session, 300)
    taken = take(session, 1000)
    settling, waiting = connect(autocommit=True), connect(autocommit=True)

    def settle_all() -> None:
        for each in taken:
            complete(settling, [each])

    def wait_all() -> None:
        for number in ids:
            wait_for(waiting, [number])

    steps: list[Callable[[], Any]] = [settle_all, wait_all]
    together(*steps)
    session.execute("SELECT pgqueue_sweep()")
    assert one(session, "SELECT count(*) FROM pgqueue_message WHERE status = 1") == len(ids)
    assert one(session, "SELECT count(*) FROM pgqueue_batch_member") == 0
