"""Live tables that an operator has made UNLOGGED: a crash loses the live messages, nothing else, and the queue
goes on by itself."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from django_pgqueue.checks.server import LIVE
from tests.support.sessions import Session, one
from tests.support.unlogged import set_logged, set_unlogged
from tests.support.waiting import eventually

from .calls import MESSAGE, channel, complete, connect, count, dequeue, enqueue, settled
from .driver.fleet import Fleet
from .pair import DATABASE, server_pair
from .server import Server

LEASE_LOST, UNLOGGED_ON_STANDBY = "PGQ02", "0A000"


@pytest.fixture
def url(server: Server) -> str:
    """A database in which a few messages have come and gone before its live tables became UNLOGGED."""
    url = server.make_database("unlogged")
    with connect(url) as session:
        channel(session, "a")
        channel(session, "small", max_size=3)
        enqueue(session, "a", 3)
        complete(session, dequeue(session, 3))
    set_unlogged(url)
    return url


def test_a_crash_loses_what_was_live_and_nothing_else(server: Server, url: str) -> None:
    with connect(url) as session:
        enqueue(session, "a", 4)
        enqueue(session, "small", 3)
        enqueue(session, "a", 1, p_delay="1 hour")
        one(session, "SELECT pgqueue_wait('sleeper', ARRAY['default'], '1 hour')")
        done, held, refused = dequeue(session, 1), dequeue(session, 1), dequeue(session, 1)
        one(session, "SELECT pgqueue_dead_letter(%s, %s, ARRAY['rejected'])", *refused)
        complete(session, done)
        before = settled(session)
        last = one(session, "SELECT last_value FROM pgqueue_message_id_seq")
        session.execute("CHECKPOINT")
    server.kill(all_of_it=True)
    server.recover()
    with connect(url) as session:
        assert {table: count(session, table) for table in LIVE} == dict.fromkeys(LIVE, 0)
        assert settled(session) == before
        assert count(session, "pgqueue_channel") == 3
        with pytest.raises(psycopg.Error) as caught:
            complete(session, held)
        assert caught.value.sqlstate == LEASE_LOST
        assert dequeue(session, 10) == ([], [])
        assert min(enqueue(session, "a", 2)) > last
        assert_it_goes_on(session)


def test_no_id_is_given_twice_whenever_the_server_crashes(server: Server, url: str) -> None:
    """PostgreSQL logs a sequence only once in 32 values, and keeps count of that in the sequence itself."""
    given: list[int] = []
    for _ in range(3):
        with connect(url) as session:
            given += enqueue(session, "a", 5)
            complete(session, dequeue(session, 5))
        server.kill(all_of_it=True)
        server.recover()
    set_logged(url)
    for _ in range(2):
        with connect(url) as session:
            given += enqueue(session, "a", 5)
            complete(session, dequeue(session, 5))
        server.kill(all_of_it=True)
        server.recover()
    assert len(set(given)) == len(given) == 25
    with connect(url) as session:
        assert count(session, "pgqueue_archived_message") == 28


def test_a_crash_while_the_tables_are_changed_strands_no_message(server: Server) -> None:
    """The messages are the first to go: what leads to them stays, and leads to nothing for a while."""
    url = server.make_database("unlogged")
    with connect(url) as session:
        channel(session, "a", max_concurrency=2)
        channel(session, "small", max_size=3)
        enqueue(session, "a", 3)
        dequeue(session, 2)
        enqueue(session, "a", 1)
        enqueue(session, "small", 3)
        session.execute(f"ALTER TABLE {MESSAGE} SET UNLOGGED")
    server.kill(all_of_it=True)
    server.recover()
    with connect(url) as session:
        assert count(session, MESSAGE) == 0
        assert count(session, "pgqueue_lane") > 0
        session.execute("SELECT pgqueue_prune()")
        enqueue(session, "a", 2)
        assert_it_goes_on(session)


@pytest.mark.timeout(180)
def test_a_worker_hears_that_its_lease_is_lost_and_goes_on(server: Server, url: str, tmp_path: Path) -> None:
    fleet = Fleet(url, tmp_path)
    fleet.worker("worker", 0)
    [post] = fleet.workers
    post.environment["CHAOS_LEASE"] = "1"  # its handler sleeps three times as long
    try:
        with connect(url) as session:
            [lost] = enqueue(session, "a", 1, p_handler="chaos.slow")
            fleet.tend()
            eventually(lambda: one(session, f"SELECT status FROM {MESSAGE}") == 2)
        server.kill(all_of_it=True)
        server.recover()
        with connect(url) as session:
            eventually(
                lambda: f"the lease of chaos.slow #{lost} on default/a (attempt 1) is lost" in post.log.read_text()
            )
            [after] = enqueue(session, "a", 1, p_handler="chaos.defer")
            done = "SELECT true FROM pgqueue_archived_message WHERE id = %s"
            eventually(lambda: one(session, done, after))
            assert one(session, done, lost) is None
        assert fleet.retire(fleet.workers) == []
    finally:
        fleet.close()


@pytest.mark.timeout(180)
def test_a_standby_that_takes_over_has_what_is_settled_and_nothing_live() -> None:
    with server_pair() as pair:
        set_unlogged(pair.primary.url(DATABASE))
        with connect(pair.primary.url(DATABASE)) as session:
            channel(session, "a")
            last = max(enqueue(session, "a", 5))
            complete(session, dequeue(session, 2))
            before = settled(session)
            written = one(session, "SELECT pg_current_wal_flush_lsn()::text")
        with connect(pair.standby.url(DATABASE)) as session:
            eventually(lambda: one(session, "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", written))
            assert settled(session) == before
            with pytest.raises(psycopg.Error) as caught:
                count(session, MESSAGE)
            assert caught.value.sqlstate == UNLOGGED_ON_STANDBY
        pair.fail_over()
        with connect(pair.url) as session:
            assert {table: count(session, table) for table in LIVE} == dict.fromkeys(LIVE, 0)
            assert settled(session) == before
            assert min(enqueue(session, "a", 2)) > last
            assert len(dequeue(session, 10)[0]) == 2


def assert_it_goes_on(session: Session) -> None:
    """Two messages are ready, and nothing else is. Limits hold, and maintenance finds nothing wrong."""
    taken = dequeue(session, 10)
    assert len(taken[0]) == 2
    complete(session, taken)
    enqueue(session, "small", 3)
    assert one(session, "SELECT outcome FROM pgqueue_enqueue('work', p_channel => 'small')") == "full"
    warned: list[str] = []
    session.add_notice_handler(lambda notice: warned.append(notice.message_primary or ""))
    session.execute("SET client_min_messages = warning")
    for call in ("pgqueue_tick()", "pgqueue_sweep()", "pgqueue_prune()", "pgqueue_metrics()"):
        session.execute(f"SELECT * FROM {call}").fetchall()
    assert warned == []
    complete(session, dequeue(session, 10))
    enqueue(session, "small", 3)
