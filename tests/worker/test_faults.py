"""The reaction of a worker when the database, a partition or a connection goes away."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, connection

from django_pgqueue.embedded import temporary_cluster
from django_pgqueue.models import ArchivedMessage, Message
from django_pgqueue.sql.call import primary
from tests.support.paths import REPOSITORY
from tests.support.sessions import Connect
from tests.support.sql import sql
from tests.support.waiting import eventually
from tests.worker.conftest import Process, effects, mark, marks, script, scripts, where
from tests.worker.scripted import handlers as scripted

Start = Callable[..., Any]
BLOCKED = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s"


def database_events(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.event
        for record in caplog.records
        if getattr(record, "event", "").startswith(("database_", "connection_"))
    ]


def test_a_settlement_whose_connection_died_is_written_once(
    start: Start, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "django_pgqueue")
    archive = connect()
    archive.execute("LOCK TABLE pgqueue_archived_message IN SHARE MODE")
    messages = scripts(5, ["effect"])
    worker = start(drain=True)
    [[backend]] = eventually(lambda: sql(BLOCKED, "%pgqueue_complete%"))
    sql("SELECT pg_terminate_backend(%s)", backend)
    eventually(lambda: "connection_lost" in database_events(caplog))
    archive.rollback()
    worker.join()
    assert worker.clean
    assert {where(message) for message in messages} == {"completed"}
    assert sorted(effects()) == [(message, 1) for message in messages]
    assert worker.ledger.totals()["completed"] == 5
    assert worker.ledger.totals()["lease_lost"] == 0
    assert database_events(caplog) == ["connection_lost"]


def test_a_settlement_that_was_committed_before_its_connection_died_counts(start: Start, connect: Connect) -> None:
    """The answer to the commit never came: the second try finds nothing to settle, and that is no lost lease."""
    session = connect()
    session.execute("LOCK TABLE pgqueue_archived_message IN SHARE MODE")
    message = script(["effect"])
    worker = start(drain=True)
    [[backend]] = eventually(lambda: sql(BLOCKED, "%pgqueue_complete%"))
    # The effect of the first try. It waits for the message already, so the second try of the worker comes after it.
    settle = "SELECT pgqueue_complete(ARRAY[id], ARRAY[lease_token]) FROM pgqueue_message WHERE id = %s"
    with ThreadPoolExecutor(1) as pool:
        settled = pool.submit(lambda: session.execute(settle, [message]).fetchall())
        eventually(lambda: len(sql(BLOCKED, "%pgqueue_complete%")) == 2)
        sql("SELECT pg_terminate_backend(%s)", backend)
        assert settled.result(60) == [(message,)]
    session.commit()
    worker.join()
    assert where(message) == "completed"
    assert worker.ledger.totals()["completed"] == 1
    assert worker.ledger.totals()["lease_lost"] == 0


@pytest.mark.parametrize("handler", ["scripted", "scripted.atomic", "scripted.batch"])
def test_a_missing_partition_is_made_and_nothing_is_lost(start: Start, handler: str) -> None:
    messages = scripts(12, ["effect"], handler=handler)
    sql(f"DROP TABLE pgqueue_archived_message_{datetime.now(UTC):%Y%m%d}")
    worker = start(drain=True)
    worker.join()
    assert worker.clean
    assert {where(message) for message in messages} == {"completed"}
    assert sorted(effects()) == [(message, 1) for message in messages]


def test_every_connection_of_a_busy_worker_may_die(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "django_pgqueue")
    messages = scripts(200, ["effect"], ["sleep", 0.005])
    atomic = scripts(200, ["effect"], ["sleep", 0.005], handler="scripted.atomic")
    start(concurrency=4, lease=timedelta(seconds=1), listen="default", maintenance=True)
    for done in (50, 150, 250):
        eventually(lambda done=done: ArchivedMessage.objects.count() > done)
        sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
    eventually(lambda: not Message.objects.exists())
    assert {where(message) for message in messages + atomic} == {"completed"}
    done = [message for message, _ in effects()]
    assert set(done) == {*messages, *atomic}
    assert len([message for message in done if message in set(atomic)]) == len(atomic), "exactly once"
    assert not [record for record in caplog.records if getattr(record, "event", "") in ("slot_failed", "role_crashed")]


def test_a_message_that_a_session_locked_does_not_starve_the_heartbeats_of_the_others(
    start: Start, connect: Connect
) -> None:
    locked, other = scripts(2, ["effect"], ["await", "go"])
    worker = start(concurrency=2, lease=timedelta(seconds=3), maintenance=True)
    eventually(lambda: len(effects()) == 2)
    session = connect()
    session.execute("SELECT FROM pgqueue_message WHERE id = %s FOR UPDATE", [locked])
    before = Message.objects.get(id=other).lease_expires_at
    eventually(lambda: Message.objects.get(id=other).lease_expires_at > before + timedelta(seconds=1.5))
    session.rollback()
    mark("go")
    eventually(lambda: ArchivedMessage.objects.count() == 2)
    assert worker.ledger.totals()["lease_lost"] == 0


def test_a_lease_that_was_lost_is_said_once_and_its_outcome_does_not_count(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    message = script(["mark", "running"], ["await", "go"], max_attempts=1)
    worker = start(lease=timedelta(seconds=0.6))
    eventually(lambda: marks("running"))
    sql("UPDATE pgqueue_message SET lease_token = gen_random_uuid(), lease_expires_at = clock_timestamp() + '1 hour'")
    eventually(lambda: worker.ledger.totals()["lease_lost"])
    mark("go")
    worker.stop()
    worker.join()
    assert where(message) == "live: leased"
    assert worker.ledger.totals() == {
        "completed": 0,
        "deferred": 0,
        "retried": 0,
        "dead_lettered": 0,
        "cancelled": 0,
        "given_back": 0,
        "lease_lost": 1,
    }
    assert [record.message_id for record in caplog.records if getattr(record, "event", "") == "lease_lost"] == [message]


def test_a_message_lost_before_it_started_is_not_started(start: Start) -> None:
    first, second = script(["effect"], ["await", "go"]), script(["effect"])
    worker = start(concurrency=1, once=True, batch=2, lease=timedelta(seconds=0.6))
    eventually(lambda: Message.objects.filter(status=Message.Status.LEASED).count() == 2 and effects())
    sql("UPDATE pgqueue_message SET lease_token = gen_random_uuid() WHERE id = %s", second)
    eventually(lambda: worker.ledger.totals()["lease_lost"])
    mark("go")
    worker.join()
    assert effects() == [(first, 1)]


@pytest.mark.parametrize("processes", [0, 1])
def test_a_database_that_restarts_under_load_loses_nothing(processes: int) -> None:
    with temporary_cluster() as cluster:
        cluster.ensure_database("restarted")
        url = cluster.url("restarted")
        environment = {**os.environ, "DATABASE_URL": url}
        manage = [sys.executable, str(REPOSITORY / "testproject" / "manage.py"), "migrate", "--skip-checks", "-v0"]
        subprocess.run(manage, env={**environment, "DJANGO_SETTINGS_MODULE": "testproject.settings"}, check=True)
        count = 1500
        with psycopg.connect(url, autocommit=True) as session:
            session.execute(scripted.TABLES)
            for handler in ("scripted", "scripted.atomic"):
                session.execute(
                    "INSERT INTO pgqueue_message (channel_id, handler, payload, max_attempts) "
                    "SELECT c.id, %s, %s, 2 FROM pgqueue_channel AS c, generate_series(1, %s)",
                    [handler, '[["effect"], ["sleep", 0.002]]', count],
                )
        worker = Process(environment, "--lease", "2", processes=processes)
        try:
            eventually(lambda: look(url, "SELECT count(*) FROM pgqueue_archived_message") > 100)
            cluster.stop()
            eventually(lambda: "the database fails" in worker.log)
            cluster.start()
            eventually(lambda: look(url, "SELECT count(*) FROM pgqueue_message") == 0)
            assert look(url, "SELECT count(*) FROM pgqueue_archived_message WHERE outcome = 'completed'") == 2 * count
            assert look(url, "SELECT count(DISTINCT message_id) FROM scripted_effect") == 2 * count
            exactly_once = "SELECT count(*) FROM scripted_effect JOIN pgqueue_archived_message ON id = message_id"
            assert look(url, f"{exactly_once} WHERE handler = 'scripted.atomic'") == count
            # Handlers that ran at that moment failed. Nothing more was started until the server was back.
            assert look(url, "SELECT count(*) FROM pgqueue_archived_message WHERE errors IS NOT NULL") <= 8
            worker.popen.terminate()
            assert worker.wait() == 0
            # Each process says it once.
            assert 1 <= worker.log.count("the database fails") <= 1 + processes
            assert worker.log.count("the database fails") == worker.log.count("the database works again")
        finally:
            worker.close()


def test_the_error_of_the_server_is_logged_without_the_statement(queue: None) -> None:
    with pytest.raises(DatabaseError) as raised:
        sql("DO 'BEGIN PERFORM 1 / 0; END'")
    assert "CONTEXT" in str(raised.value)
    assert primary(raised.value) == "division by zero"
    assert primary(ConnectionError("refused\n")) == "refused"


def look(url: str, query: str) -> int:
    with psycopg.connect(url) as session:
        return session.execute(query).fetchone()[0]


def test_the_test_connection_is_left_alone(start: Start) -> None:
    backend = connection.connection.info.backend_pid
    script()
    start(drain=True).join()
    assert connection.connection.info.backend_pid == backend
