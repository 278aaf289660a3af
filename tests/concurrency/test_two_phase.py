"""Two-phase commit: a transaction that enqueued can always be prepared, if it says before that it will not notify."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import psycopg
import pytest

from tests.support.sessions import Connect, Session
from tests.support.verbs import dequeue, enqueue, make_channel, settle, tick

WAYS = {
    "enqueue": "SELECT pgqueue_enqueue('h')",
    "enqueue with a dedupe key": "SELECT pgqueue_enqueue('h', p_dedupe_key => 'k')",
    "enqueue to a channel with max_size": "SELECT pgqueue_enqueue('h', p_channel => 'small')",
    "enqueue for later": "SELECT pgqueue_enqueue('h', p_delay => '1 microsecond')",
    "enqueue_many": "SELECT pgqueue_enqueue_many(ARRAY['h', 'h'], ARRAY['1', '2']::jsonb[])",
    "enqueue of a new channel": "SELECT pgqueue_enqueue('h', p_channel => 'new', p_create_channel => true)",
    "INSERT": "INSERT INTO pgqueue_message (channel_id, handler) SELECT id, 'h' FROM pgqueue_channel WHERE name = 'c'",
}


@pytest.fixture
def session(connect: Connect) -> Session:
    """A session listens and waits, as a worker that sleeps; the queue has events."""
    session = connect(autocommit=True)
    for name in ("default", "c"):
        make_channel(session, name)
    make_channel(session, "small", max_size=5)
    session.execute("SELECT pgqueue_wait('w', ARRAY['default'], '1 minute')")
    session.execute("INSERT INTO pgqueue_queue (name, events) VALUES ('default', true)")
    return session


@pytest.fixture
def name(connect: Connect) -> Iterator[str]:
    """The name of a prepared transaction; it does not outlive the test."""
    name = f"pgqueue {uuid.uuid4()}"
    yield name
    session = connect(autocommit=True)
    if session.execute("SELECT FROM pg_prepared_xacts WHERE gid = %s", [name]).fetchone() is not None:
        session.execute(f"ROLLBACK PREPARED '{name}'")


def prepare(session: Session, name: str, statement: str, *, notify: str | None) -> None:
    session.execute("BEGIN")
    if notify is not None:
        session.execute(f"SET LOCAL pgqueue.notify = {notify}")
    session.execute(statement)
    session.execute(f"PREPARE TRANSACTION '{name}'")


@pytest.mark.parametrize("way", WAYS)
def test_a_transaction_without_notify_can_be_prepared_and_is_seen_after_its_commit(
    session: Session, connect: Connect, name: str, way: str
) -> None:
    prepare(connect(autocommit=True), name, WAYS[way], notify="off")
    # Meanwhile the line goes on: its floors must not pass a transaction that is prepared.
    for _ in range(3):
        enqueue(session, "c")
        tick(session, 2)
        settle(session, dequeue(session, 10))
    assert dequeue(session, 10) == []
    session.execute(f"COMMIT PREPARED '{name}'")
    tick(session, 2)
    found = dequeue(session, 10)
    assert len(found) == (2 if way == "enqueue_many" else 1)
    settle(session, found)


@pytest.mark.parametrize("way", sorted(set(WAYS) - {"enqueue for later"}))
def test_without_it_a_worker_that_sleeps_makes_the_prepare_fail(
    session: Session, connect: Connect, name: str, way: str
) -> None:
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="NOTIFY"):
        prepare(connect(autocommit=True), name, WAYS[way], notify=None)
    assert dequeue(session, 10) == []


def test_a_transaction_that_is_rolled_back_after_the_prepare_leaves_nothing(
    session: Session, connect: Connect, name: str
) -> None:
    prepare(connect(autocommit=True), name, WAYS["enqueue with a dedupe key"], notify="off")
    session.execute(f"ROLLBACK PREPARED '{name}'")
    assert dequeue(session, 10) == []
    assert session.execute("SELECT outcome FROM pgqueue_enqueue('h', p_dedupe_key => 'k')").fetchone() == ("created",)


def test_a_transaction_that_does_not_notify_sends_no_events(session: Session, connect: Connect) -> None:
    session.execute("LISTEN pgqueue_events")
    other = connect()
    other.execute("SET LOCAL pgqueue.notify = off")
    other.execute("SELECT pgqueue_enqueue('h')")
    other.commit()
    other.execute("SELECT pgqueue_enqueue('h')")
    other.commit()
    assert len(list(session.notifies(timeout=5, stop_after=1))) == 1
    assert list(session.notifies(timeout=0.2)) == []
