"""A dequeue that waits returns soon after a message has come, and is in the way of no other session meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.support.cases import cases
from tests.support.sessions import IMPATIENT, Connect, Session, one
from tests.support.verbs import dequeue, enqueue, enqueue_many, make_channel, settle
from tests.support.waiting import eventually

Messages = list[dict[str, Any]]
Call = Callable[..., "Future[Messages]"]
# PostgreSQL says the rest of what a session holds in its own id.
STATE = """
SELECT a.wait_event, a.backend_xid, a.backend_xmin::text::bigint AS xmin, a.xact_start,
    (SELECT array_agg(l.locktype) FROM pg_locks AS l WHERE l.pid = a.pid) AS locks
FROM pg_stat_activity AS a WHERE a.pid = %s
"""


def call(session: Session, arguments: str = "", *values: Any) -> Messages:
    return one(session, f"CALL pgqueue_dequeue_wait({arguments})", *values)


@pytest.fixture
def waiting(connect: Connect) -> Session:
    """A session in autocommit whose statements may take as long as a wait does."""
    return connect(autocommit=True, options=f"{IMPATIENT} -c statement_timeout=250s")


@pytest.fixture
def waits_for(waiting: Session) -> Iterator[Call]:
    """`waits_for("200 s")`: the answer that a call of the session `waiting` will have. It is ended with the test."""
    with ThreadPoolExecutor(1) as pool:
        yield lambda wait, limit=1: pool.submit(call, waiting, "p_wait => %s, p_limit => %s", wait, limit)
        waiting.cancel()


def asleep(session: Session, waiting: Session) -> dict[str, Any]:
    """Return PostgreSQL's view of the waiting session, at a moment when it sleeps."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        cursor = session.execute(STATE, [waiting.info.backend_pid])
        state = dict(zip([column.name for column in cursor.description], cursor.fetchone(), strict=True))
        if state["wait_event"] == "PgSleep":
            return state
        time.sleep(0.002)
    raise AssertionError("it does not sleep")


def test_messages_that_are_there_come_at_once_in_the_order_of_service(session: Session, waiting: Session) -> None:
    ids = [enqueue(session, priority=priority) for priority in (0, 9, 5)]
    messages = call(waiting, "'default', 10, '1 minute', 'psql', '0'")
    assert [message["id"] for message in messages] == [ids[1], ids[2], ids[0]]
    assert {message["attempts"] for message in messages} == {1}
    assert one(session, "SELECT count(*) FROM pgqueue_message WHERE status = 2 AND worker = 'psql'") == 3


def test_a_message_has_the_columns_of_a_dequeue(session: Session, waiting: Session) -> None:
    make_channel(session, "acme")
    session.execute("UPDATE pgqueue_channel SET context = '{\"tenant\": 7}' WHERE name = 'acme'")
    enqueue(session, "acme", headers=Jsonb({"h": 1}), body=b"\x00\xff")
    [message] = call(waiting)
    columns = [column.name for column in session.execute("SELECT * FROM pgqueue_dequeue()").description]
    assert sorted(message) == sorted(columns)
    found = {key: message[key] for key in ("channel", "handler", "payload", "headers", "body", "context")}
    assert found == {
        "channel": "acme", "handler": "work", "payload": {}, "headers": {"h": 1}, "body": "\\x00ff",
        "context": {"tenant": 7},
    }  # fmt: skip
    assert one(session, "SELECT pgqueue_complete(ARRAY[%s::bigint], ARRAY[%s::uuid])", message["id"], message["token"])


def test_messages_that_come_while_it_waits_are_returned_and_leased(
    session: Session, waiting: Session, waits_for: Call
) -> None:
    answer = waits_for("240 s")
    asleep(session, waiting)
    message = enqueue(session)
    assert [found["id"] for found in answer.result(60)] == [message]
    assert one(session, "SELECT status FROM pgqueue_message WHERE id = %s", message) == 2
    assert dequeue(session) == []


def test_at_the_end_of_the_wait_an_empty_array_comes(session: Session, waiting: Session) -> None:
    began_at = time.monotonic()
    assert call(waiting, "p_wait => '300 ms'") == []
    assert time.monotonic() - began_at >= 0.3
    assert call(waiting, "p_wait => '0'") == []


def test_while_it_waits_it_holds_no_transaction_id_and_no_lock(
    session: Session, waiting: Session, waits_for: Call
) -> None:
    """A session's lock on its own virtual id is there as long as the session works."""
    answer = waits_for("240 s")
    for _ in range(20):
        state = asleep(session, waiting)
        assert (state["backend_xid"], state["locks"]) == (None, ["virtualxid"])
    assert not answer.done()


def test_while_it_waits_its_snapshot_and_its_transaction_are_new_ones(
    session: Session, waiting: Session, waits_for: Call
) -> None:
    """PostgreSQL has no sleep without a snapshot. This one goes on, so that VACUUM cleans up what died meanwhile."""
    answer = waits_for("240 s")
    first = asleep(session, waiting)
    for _ in range(3):
        enqueue(session, delay="1 hour")
    now = int(one(session, "SELECT pg_current_xact_id()::text"))
    eventually(lambda: asleep(session, waiting)["xmin"] >= now)
    assert asleep(session, waiting)["xact_start"] > first["xact_start"]
    assert not answer.done()


def test_a_wait_that_is_cancelled_leases_nothing(session: Session, waiting: Session, waits_for: Call) -> None:
    answer = waits_for("240 s")
    asleep(session, waiting)
    waiting.cancel()
    with pytest.raises(psycopg.errors.QueryCanceled):
        answer.result(60)
    assert len(enqueue_many(session, ["default"] * 2)) == 2
    assert len(dequeue(session, 5)) == 2


def test_two_that_wait_share_what_comes(session: Session, connect: Connect) -> None:
    sessions = [connect(autocommit=True) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(call, one_of_them, "p_wait => '200 s'") for one_of_them in sessions]
        for one_of_them in sessions:
            asleep(session, one_of_them)
        ids = enqueue_many(session, ["default"] * 2)
        assert sorted(message["id"] for answer in answers for message in answer.result(60)) == sorted(ids)


def test_a_lease_that_expires_while_it_waits_comes_back(session: Session, waiting: Session, waits_for: Call) -> None:
    message = enqueue(session)
    [lease] = dequeue(session, lease="1 second")
    [found] = waits_for("240 s").result(60)
    assert (found["id"], found["attempts"]) == (message, 2)
    with pytest.raises(psycopg.Error, match="lease"):
        settle(session, [lease])


def refusal_of_wait(session: Session, statement: str) -> psycopg.Error:
    with pytest.raises(psycopg.Error) as raised:
        session.execute(statement)
    assert raised.value.sqlstate == "PGQ07"
    return raised.value


@cases("wait", ["'-1 ms'", "'300.001 s'", "'1 month'", "NULL"])
def test_a_wait_out_of_bounds_is_refused(session: Session, waiting: Session, wait: str) -> None:
    enqueue(session)
    error = refusal_of_wait(waiting, f"CALL pgqueue_dequeue_wait(p_wait => {wait})")
    assert "waits for 0 to 300 seconds" in str(error)
    assert "run a worker" in error.diag.message_hint
    assert len(dequeue(session)) == 1


def test_other_arguments_are_refused_as_by_a_dequeue(session: Session, waiting: Session) -> None:
    assert "limit" in str(refusal_of_wait(waiting, "CALL pgqueue_dequeue_wait(p_limit => 0)"))
    assert "lease" in str(refusal_of_wait(waiting, "CALL pgqueue_dequeue_wait(p_lease => '0')"))
    waiting.execute("SET default_transaction_isolation = 'repeatable read'")
    assert "READ COMMITTED" in str(refusal_of_wait(waiting, "CALL pgqueue_dequeue_wait()"))


def test_in_a_transaction_block_it_says_what_to_do_and_leases_nothing(session: Session, business: Session) -> None:
    enqueue(session)
    error = refusal_of_wait(business, "CALL pgqueue_dequeue_wait()")
    assert "cannot run in a transaction block" in str(error)
    assert "in autocommit" in error.diag.message_hint
    business.rollback()
    assert len(dequeue(session)) == 1
