"""Live tables that an operator has made UNLOGGED: a crash loses the live messages, nothing else, and the queue
goes on by itself."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psycopg
import pytest

from django_pgqueue.sql.durability import LIVE, MESSAGE, rewrite_statements
from tests.support.markdown import DOCS, blocks
from tests.support.sessions import Session, one
from tests.support.waiting import eventually

from .calls import channel, claim, complete, connect, count, count_or_none, dequeue, enqueue, settled
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
    server.manage("unlogged", "queuedurability", "--unlogged", "--yes")
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
    server.manage("unlogged", "queuedurability", "--logged", "--yes")
    for _ in range(2):
        with connect(url) as session:
            given += enqueue(session, "a", 5)
            complete(session, dequeue(session, 5))
        server.kill(all_of_it=True)
        server.recover()
    assert len(set(given)) == len(given) == 25
    with connect(url) as session:
        assert count(session, "pgqueue_archived_message") == 28


def test_one_server_process_that_is_killed_is_a_crash(server: Server, url: str) -> None:
    with connect(url) as session:
        enqueue(session, "a", 2)
        os.kill(session.info.backend_pid, signal.SIGKILL)
    eventually(lambda: count_or_none(url) == 0)


def test_a_clean_restart_loses_nothing(server: Server, url: str) -> None:
    with connect(url) as session:
        enqueue(session, "a", 2)
    server.cluster.stop()
    server.cluster.start()
    with connect(url) as session:
        assert count(session, MESSAGE) == 2
        assert len(dequeue(session, 10)[0]) == 2


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
        with session.transaction():
            for statement in rewrite_statements(MESSAGE, unlogged=True):
                session.execute(statement)
    server.kill(all_of_it=True)
    server.recover()
    with connect(url) as session:
        assert count(session, MESSAGE) == 0
        assert count(session, "pgqueue_lane") > 0
        session.execute("SELECT pgqueue_prune()")
        enqueue(session, "a", 2)
        assert_it_goes_on(session)


def test_a_message_that_was_redriven_and_lost_is_found(server: Server, url: str) -> None:
    with connect(url) as session:
        letters = enqueue(session, "a", 2)
        both = dequeue(session, 2)
        one(session, "SELECT count(*) FROM pgqueue_dead_letter(%s, %s, ARRAY['failed', 'failed'])", *both)
        one(session, "SELECT count(*) FROM pgqueue_redrive(%s)", letters)
        complete(session, dequeue(session, 1))
    server.kill(all_of_it=True)
    server.recover()
    [find, give_back] = documented("redriven")
    with connect(url) as session:
        assert [row[0] for row in session.execute(find).fetchall()] == letters[1:]
        session.execute(give_back)
        assert session.execute(find).fetchall() == []
        assert one(session, "SELECT old_id FROM pgqueue_redrive(%s)", letters) == letters[1]
        assert len(dequeue(session, 10)[0]) == 1


def test_a_schedule_does_not_wait_for_a_message_that_is_lost(server: Server, url: str) -> None:
    run = "SELECT outcome FROM pgqueue_schedule_run('nightly')"
    with connect(url) as session:
        session.execute(
            "INSERT INTO pgqueue_schedule (name, handler, channel, every, overlap)"
            " VALUES ('nightly', 'work', 'a', '1 day', false)"
        )
        assert [one(session, run), one(session, run)] == ["created", "duplicate"]
        complete(session, dequeue(session, 1))
        assert one(session, run) == "created"
    server.kill(all_of_it=True)
    server.recover()
    [find] = documented("schedule_tick")
    with connect(url) as session:
        last = one(session, "SELECT max(tick_at) FROM pgqueue_schedule_tick")
        assert session.execute(find).fetchall() == [("nightly", last)]
        assert one(session, run) == "created"
        assert len(dequeue(session, 10)[0]) == 1


def test_a_stream_goes_on_with_what_comes(server: Server, url: str) -> None:
    """One has processed its batch, and hears that it could not be settled; the other had not, and forgets it."""
    with connect(url) as session:
        channel(session, "b")
        for name in "ab":
            enqueue(session, name, 5)
            owner = one(session, "SELECT owner FROM pgqueue_stream_open(%s, 'default', %s)", name, name)
            assert claim(session, name, owner, after=0) == (1, 5, 0, 0)
    server.kill(all_of_it=True)
    server.recover()
    with connect(url) as session:
        for name, after, lost in (("a", 1, 5), ("b", 0, 0)):
            enqueue(session, name, 2)
            owner = one(session, "SELECT owner FROM pgqueue_stream_open(%s, 'default', %s)", name, name)
            assert claim(session, name, owner, after=after) == (after + 1, 2, 0, lost)
            assert claim(session, name, owner, after=after + 1) == (after + 1, 0, 2, 0)


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
        eventually(lambda: "UNLOGGED" in post.log.read_text())
        assert fleet.retire(fleet.workers) == []
    finally:
        fleet.close()


@pytest.mark.timeout(180)
def test_a_standby_that_takes_over_has_what_is_settled_and_nothing_live() -> None:
    with server_pair() as pair:
        pair.primary.manage(DATABASE, "queuedurability", "--unlogged", "--yes")
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


def documented(word: str) -> list[str]:
    """Return the SQL blocks of the page on durability that have this word."""
    page = DOCS / "how-to" / "durability.md"
    return [block.text for block in blocks(page) if block.language == "sql" and word in block.text]


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
