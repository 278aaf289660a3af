"""The live tables are made UNLOGGED and logged again under load. verification/chaos/test_unlogged.py crashes them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from django.db import connections

from django_pgqueue.sql import durability
from tests.support.chance import Chance
from tests.support.sessions import Connect, Session, one, together
from tests.support.verbs import Lease, dequeue, drain, enqueue, make_channel, settle

CHANNELS = {"free": {}, "limited": {"max_concurrency": 4}, "small": {"max_size": 100_000}}


def change(*, unlogged: bool) -> None:
    for table in durability.pending_tables(durability.unlogged_by_table("default"), unlogged=unlogged):
        durability.rewrite_table("default", table, unlogged=unlogged, lock_timeout=10)


@pytest.fixture(autouse=True)
def _logged_again(connect: Connect) -> Iterator[None]:
    yield
    change(unlogged=False)


def test_they_are_changed_under_load_and_no_call_is_refused(connect: Connect, session: Session) -> None:
    """No deadlock, nothing lost, nothing twice: enqueuers come to the tables in one order, dequeuers in another."""
    for name, limits in CHANNELS.items():
        make_channel(session, name, **limits)
    stop = threading.Event()
    enqueued: list[int] = []
    done: list[Lease] = []

    def produce(place: int) -> None:
        chance = Chance(1, f"producer {place}")
        session = connect()
        # An ALTER TABLE of a busy machine may hold an enqueue for longer than it waits by default.
        session.execute("SET pgqueue.enqueue_wait = '60 s'")
        while not stop.is_set():
            enqueued.extend([enqueue(session, chance.random.choice(list(CHANNELS))) for _ in range(3)])
            session.commit()

    def consume() -> None:
        session = connect(autocommit=True)
        while not stop.is_set():
            leases = dequeue(session, 5)
            settle(session, leases)
            done.extend(leases)
            session.execute("SELECT pgqueue_sweep()")

    def alter() -> None:
        try:
            for unlogged in (True, False, True):
                change(unlogged=unlogged)
        finally:
            stop.set()
            connections.close_all()

    together(lambda: produce(1), lambda: produce(2), consume, consume, alter)
    done += drain(session)
    assert len(done) > 10
    assert sorted(lease.id for lease in done) == sorted(enqueued)
    assert one(session, "SELECT count(*) FROM pgqueue_message") == 0


def test_a_snapshot_from_before_the_change_finds_the_tables_empty(session: Session, business: Session) -> None:
    enqueue(session)
    business.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    business.execute("SELECT 1")
    change(unlogged=True)
    assert one(business, "SELECT count(*) FROM pgqueue_message") == 0
    business.rollback()
    assert one(session, "SELECT count(*) FROM pgqueue_message") == 1
