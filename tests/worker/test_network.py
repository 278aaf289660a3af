"""The network, or a backend of the server, fails a worker: at any step of a message, nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from django_pgqueue.models import ArchivedMessage
from django_pgqueue.sql.stall import AnswerTimeout
from tests.support.paths import REPOSITORY
from tests.support.proxy import Proxy
from tests.support.sql import sql
from tests.support.waiting import eventually
from tests.worker.conftest import Process, effects, marks, script, scripts, where

NEVER = "300"
STATEMENTS = [
    "pgqueue_dequeue",  # work is taken
    "INSERT INTO scripted_effect",  # a handler writes
    "pgqueue_complete",  # an outcome is written down, by the completer or inside an atomic handler
    "COMMIT",  # of an atomic handler, or of a heartbeat
    "pgqueue_heartbeat",
    "pgqueue_wait",  # the producer says that it sleeps
    "LISTEN",
    "pgqueue_sweep",
]
# In one backend, once: a sequence knows, because nothing rolls it back.
TERMINATE_ONCE = """
CREATE SEQUENCE terminations;
CREATE FUNCTION terminate_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('terminations') = 1 THEN
        PERFORM pg_terminate_backend(pg_backend_pid());
    END IF;
    RETURN NEW;
END $$;
"""
TRIGGERS = {
    "dequeue": "CREATE TRIGGER terminate BEFORE UPDATE ON pgqueue_message "
    "FOR EACH ROW WHEN (NEW.status = 2 AND OLD.status = 1) EXECUTE FUNCTION terminate_once()",
    "handler": "CREATE TRIGGER terminate BEFORE INSERT ON scripted_effect "
    "FOR EACH ROW EXECUTE FUNCTION terminate_once()",
    "settle": "CREATE TRIGGER terminate BEFORE INSERT ON pgqueue_archived_message "
    "FOR EACH ROW EXECUTE FUNCTION terminate_once()",
    "commit": "CREATE CONSTRAINT TRIGGER terminate AFTER INSERT ON scripted_effect "
    "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION terminate_once()",
}


@pytest.fixture
def proxy(pg_url: str) -> Iterator[Proxy]:
    with Proxy(pg_url) as proxy:
        yield proxy


@pytest.fixture
def spawn_behind(spawn: Callable[..., Process], proxy: Proxy) -> Callable[..., Process]:
    """A supervisor and a process under it, whose connections go through the proxy."""
    return lambda *arguments: spawn(*arguments, processes=1, DATABASE_URL=proxy.url)


@pytest.fixture
def terminate_at(queue: None) -> Iterator[Callable[[str], None]]:
    sql(TERMINATE_ONCE)
    yield lambda step: sql(TRIGGERS[step])
    sql("DROP FUNCTION terminate_once CASCADE")
    sql("DROP SEQUENCE terminations")


def work() -> tuple[list[int], list[int]]:
    """Messages of handlers with and without a transaction; one of them lasts long enough for heartbeats."""
    plain, atomic = scripts(10, ["effect"]), scripts(10, ["effect"], handler="scripted.atomic")
    return [*plain, script(["sleep", 0.8], ["effect"])], atomic


def assert_done(worker: Process, plain: list[int], atomic: list[int]) -> None:
    eventually(lambda: ArchivedMessage.objects.count() == len(plain + atomic))
    assert {where(message) for message in plain + atomic} == {"completed"}
    done = [message for message, _ in effects()]
    assert set(done) == {*plain, *atomic}
    assert sorted(message for message in done if message in set(atomic)) == sorted(atomic), "exactly once"
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    assert "Traceback" not in worker.log


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_connection_may_break_around_any_statement(
    spawn_behind: Callable[..., Process], proxy: Proxy, statement: str, when: Any
) -> None:
    trap = proxy.trap(statement, when)
    messages = work()
    worker = spawn_behind("--lease", "1.5", "--poll-interval", "0.2")
    eventually(trap.sprung.is_set)
    assert_done(worker, *messages)


@pytest.mark.parametrize("step", TRIGGERS)
def test_a_backend_may_be_terminated_at_any_step(
    spawn: Callable[..., Process], terminate_at: Callable[[str], None], step: str
) -> None:
    terminate_at(step)
    messages = work()
    worker = spawn("--lease", "1.5", "--poll-interval", "0.2", processes=1)
    assert_done(worker, *messages)
    assert sql("SELECT last_value FROM terminations")[0][0] > 1


def test_a_server_that_refuses_connections_for_a_while_is_waited_for(
    spawn_behind: Callable[..., Process], proxy: Proxy
) -> None:
    plain, atomic = scripts(300, ["effect"], ["sleep", 0.01]), scripts(50, ["effect"], handler="scripted.atomic")
    worker = spawn_behind("--lease", "3")
    eventually(lambda: ArchivedMessage.objects.count() > 20)
    proxy.close()
    eventually(lambda: "the database fails" in worker.log)
    proxy.open()
    assert_done(worker, plain, atomic)
    assert worker.log.count("the database works again") == 1


def test_a_slow_network_loses_no_lease(spawn_behind: Callable[..., Process], proxy: Proxy) -> None:
    proxy.delay = 0.05
    messages = work()
    worker = spawn_behind("--lease", "2")
    assert_done(worker, *messages)
    assert "is lost" not in worker.log


def test_a_worker_notices_that_its_connections_lead_nowhere(spawn_behind: Callable[..., Process], proxy: Proxy) -> None:
    """As behind a pooler that hangs: what is sent is acknowledged, and nothing comes back."""
    first = script(["effect"])
    worker = spawn_behind("--lease", "2", "--poll-interval", "0.2")
    eventually(lambda: effects() == [(first, 1)])
    second = script(["mark", "running"], ["sleep", 1.0])
    eventually(lambda: marks("running"))
    proxy.swallow()
    eventually(lambda: proxy.swallowed >= 3)
    proxy.heal()
    third = script(["effect"])
    eventually(lambda: {where(message) for message in (first, second, third)} == {"completed"})
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    assert "no answer for 10 s" in worker.log


def test_a_listener_notices_that_it_is_not_notified_any_more(
    spawn_behind: Callable[..., Process], proxy: Proxy
) -> None:
    spawn_behind("--poll-interval", NEVER, "--concurrency", "1")
    eventually(lambda: sql("SELECT 1 FROM pgqueue_waiter WHERE wait_until > clock_timestamp()"))
    listening = "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'pgqueue:listen:%%' AND query LIKE %s"
    eventually(lambda: sql(listening, "SELECT 1%"))
    proxy.swallow()
    message = script(["effect"])
    eventually(lambda: proxy.swallowed)
    proxy.heal()
    eventually(lambda: effects() == [(message, 1)])


def test_a_statement_without_an_answer_is_given_up(queue: None, proxy: Proxy) -> None:
    with psycopg.connect(proxy.url, autocommit=True) as session:
        AnswerTimeout(0.3).apply(session)
        proxy.swallow()
        with pytest.raises(psycopg.OperationalError, match="has not answered"):
            session.execute("SELECT 1")
        assert session.closed


def test_a_statement_that_takes_too_long_is_cancelled_on_the_server(queue: None, pg_url: str) -> None:
    with psycopg.connect(pg_url, autocommit=True) as session:
        AnswerTimeout(0.3).apply(session)
        with pytest.raises(psycopg.errors.QueryCanceled):
            session.execute("SELECT pg_sleep(100)")
        assert session.execute("SELECT 1").fetchone() == (1,)


def test_a_statement_that_is_only_slow_gets_more_time_at_each_try(queue: None, pg_url: str) -> None:
    timeout = AnswerTimeout(0.4)
    answered, failures = None, 0
    while answered is None:
        with psycopg.connect(pg_url, autocommit=True) as session:
            timeout.apply(session)
            try:
                answered = session.execute("SELECT 7 FROM pg_sleep(2)").fetchone()
            except psycopg.errors.QueryCanceled:
                failures += 1
                assert timeout.limit == 0.4 * 2**failures
    assert answered == (7,)
    assert failures >= 1


def test_a_wait_in_python_is_no_silence_of_the_server(queue: None, pg_url: str) -> None:
    with psycopg.connect(pg_url, autocommit=True) as session:
        AnswerTimeout(1).apply(session)
        time.sleep(1.5)
        assert session.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize(("given", "idle"), [("", 5), ("keepalives_idle=77", 77)])
def test_tcp_looks_after_idle_connections_unless_the_project_says_how(
    queue: None, environment: dict[str, str], proxy: Proxy, given: str, idle: int
) -> None:
    program = """
import django, socket
django.setup()
from django.db import connection
from django_pgqueue.worker.database import keep_alive
keep_alive()
connection.ensure_connection()
peer = socket.socket(fileno=connection.connection.fileno())
print(*(peer.getsockopt(socket.IPPROTO_TCP, getattr(socket, n)) for n in ("TCP_KEEPIDLE", "TCP_USER_TIMEOUT")))
peer.detach()
"""
    path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "testproject")])
    url = proxy.url.rstrip("?")
    if given:
        url += f"{'&' if '?' in url else '?'}{given}"
    environment = {**environment, "DATABASE_URL": url, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(idle), "10000"]


def test_messages_of_a_dequeue_that_comes_after_the_end_of_its_leases_are_not_started(
    spawn: Callable[..., Process], proxy: Proxy
) -> None:
    """Others may be at work on it."""
    worker = spawn("--lease", "1", processes=1, DATABASE_URL=proxy.url)
    eventually(lambda: sql("SELECT name FROM pgqueue_worker"))
    proxy.delay = 1.1
    message = script(["mark", "started"], ["effect"], max_attempts=50)
    eventually(lambda: "too late for its leases" in worker.log)
    assert not marks("started")
    proxy.delay = 0.0
    eventually(lambda: where(message) == "completed")
    assert marks("started") == 1
    assert f"giving back scripted #{message} on default/default" in worker.log
