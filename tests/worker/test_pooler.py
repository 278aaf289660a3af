"""Workers behind a transaction pooler: a session is theirs for a transaction, and another one's after it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import psycopg
import pytest

from django_pgqueue import channel_set
from django_pgqueue.models import ArchivedMessage
from tests.support.sql import sql
from tests.support.waiting import eventually
from tests.worker.conftest import Process, effects, script, scripts, where
from tests.worker.pooler import POOL_SIZE, transaction_pooler

# Settings that a transaction left behind in its session. The pooler restores those that clients set at connect.
LEFT_BEHIND = """
SELECT name, setting FROM pg_settings
WHERE source = 'session'
    AND name NOT IN ('application_name', 'client_encoding', 'DateStyle', 'TimeZone', 'standard_conforming_strings')
UNION ALL SELECT 'LISTEN', c FROM pg_listening_channels() AS c
UNION ALL SELECT 'lock', l.locktype FROM pg_locks AS l WHERE l.pid = pg_backend_pid() AND l.locktype = 'advisory'
UNION ALL SELECT 'prepared', p.name FROM pg_prepared_statements AS p
UNION ALL SELECT 'table', c.relname FROM pg_class AS c WHERE c.relnamespace = pg_my_temp_schema()
"""


@pytest.fixture
def pooled(queue: None, pg_url: str) -> Iterator[str]:
    with transaction_pooler(pg_url) as url:
        yield url


def left_behind(url: str) -> list[tuple[str, str]]:
    """In all sessions of the pool: each of these transactions keeps one busy."""
    found = []
    with ExitStack() as stack:
        sessions = [stack.enter_context(psycopg.connect(url)) for _ in range(POOL_SIZE)]
        backends = [session.execute("SELECT pg_backend_pid()").fetchone() for session in sessions]
        assert len(set(backends)) == POOL_SIZE
        for session in sessions:
            found += session.execute(LEFT_BEHIND).fetchall()
    return found


@pytest.mark.parametrize("processes", [0, 2])
def test_workers_behind_a_pooler_do_everything_and_leave_nothing_behind(
    spawn: Callable[..., Process], pooled: str, processes: int
) -> None:
    channel_set(channel="narrow", max_concurrency=1)
    messages = [
        *scripts(40, ["effect"]),
        *scripts(40, ["effect"], handler="scripted.atomic"),
        *scripts(40, ["effect"], handler="scripted.batch"),
        *scripts(5, ["effect"], channel="narrow"),
        script(["sleep", 1.5], ["effect"]),
        script(["effect"], ["first", ["fail", "once"]]),
        script(["fresh", ["defer", 0.1, {"step": 1}]], ["effect"]),
    ]
    arguments = ["--notify", "never", "--poll-interval", "0.2", "--lease", "3"]
    worker = spawn(*arguments, processes=processes, DATABASE_URL=pooled)
    eventually(lambda: ArchivedMessage.objects.count() == len(messages))
    assert {where(message) for message in messages} == {"completed"}
    assert {message for message, _ in effects()} == set(messages)
    assert left_behind(pooled) == []
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    for trouble in ("Traceback", "is lost", "the database fails", "connection broke"):
        assert trouble not in worker.log


def test_a_direct_connection_for_listen_alone_wakes_a_worker_behind_a_pooler(
    spawn: Callable[..., Process], pooled: str, pg_url: str
) -> None:
    worker = spawn("--poll-interval", "300", DATABASE_URL=pooled, LISTEN_URL=pg_url)
    for _ in range(3):
        eventually(lambda: sql("SELECT 1 FROM pgqueue_waiter WHERE wait_until > clock_timestamp()"))
        message = script(["effect"])
        eventually(lambda message=message: (message, 1) in effects())
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    assert left_behind(pooled) == []


def test_a_worker_that_listens_through_a_pooler_says_that_it_hears_nothing_and_polls(
    spawn: Callable[..., Process], pooled: str
) -> None:
    worker = spawn("--poll-interval", "0.2", DATABASE_URL=pooled)
    eventually(lambda: "notifications do not come through" in worker.log)
    message = script(["effect"])
    eventually(lambda: (message, 1) in effects())
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    assert worker.log.count("notifications do not come through") == 1
