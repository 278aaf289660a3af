"""How an idle worker notices work: NOTIFY, polling, its own tick."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from django_pgqueue import Delivery, channel_set, queue_set
from django_pgqueue.worker.buffer import Buffer
from django_pgqueue.worker.dispatch import Wanted
from django_pgqueue.worker.looks import ServedQueues
from django_pgqueue.worker.options import WorkerOptions
from django_pgqueue.worker.producer import Producer
from django_pgqueue.worker.runtime import Role
from tests.support.sessions import Connect
from tests.support.sql import sql
from tests.support.waiting import PATIENCE_SECONDS, eventually
from tests.worker.conftest import effects, make_runtime, script, scripts, where

Start = Callable[..., Any]
# Longer than any test waits: a worker that wakes up did so for another reason.
NEVER = timedelta(minutes=5)
# Those that listen: their last statement asked which breakers are open, whether the server is still there, or, after
# an empty look, when to look again.
LISTENERS = (
    "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'pgqueue:listen:%%'"
    " AND (query LIKE '%%pgqueue_limit%%' OR query = 'SELECT 1' OR query ~ '^SELECT .*pgqueue_(is_contended|next_due)')"
)
# Those that have looked: after an empty look, a producer asks when it has to look again.
HAVE_LOOKED = (
    "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle'"
    " AND query ~ '^SELECT .*pgqueue_(is_contended|next_due)'"
)


def sleepers() -> int:
    return sql("SELECT count(*) FROM pgqueue_waiter WHERE wait_until > clock_timestamp()")[0][0]


def asleep() -> bool:
    """A worker has said that it sleeps, and looked once more after that."""
    return bool(sleepers() and sql(HAVE_LOOKED))


class AnyHandler(Buffer):
    """A buffer that takes messages of all handlers, as a dispatch with one kind of them."""

    found: list[Delivery]

    def hold(self, deliveries: list[Delivery], since: float) -> None:
        self.found += deliveries

    def wanted(self, *, settled: bool = False) -> Wanted:
        return Wanted(self.room())

    def put(self, deliveries: list[Delivery], most: int = 1000) -> dict[int, list[Delivery]]:
        return super().put(deliveries, most)


def make_producer(found: list[Delivery] | None = None, **options: Any) -> Producer:
    options = {"using": "default", "listen": "default", "poll_interval": NEVER} | options
    chosen = WorkerOptions(**options)
    dispatch = AnyHandler(2, 10, keep=False, held=(), wake=lambda: None)
    dispatch.found = [] if found is None else found
    return Producer(make_runtime(chosen), served=ServedQueues(chosen), dispatch=dispatch, done=lambda: None)


def test_an_enqueue_wakes_a_sleeping_worker(start: Start) -> None:
    start(listen="default", poll_interval=NEVER)
    for _ in range(5):
        eventually(asleep)
        message = script(["effect"])
        eventually(lambda message=message: (message, 1) in effects())


def test_one_session_listens_and_dequeues(start: Start) -> None:
    """The notification reaches the process of the server that then dequeues, and the thread that asks it to."""
    start(listen="default", poll_interval=NEVER)
    eventually(asleep)
    [[listener]] = sql(LISTENERS)
    eventually(lambda: sql(f"{HAVE_LOOKED} AND pid = %s", listener))


def test_a_notification_that_comes_with_the_answer_of_a_statement_is_heard(queue: None) -> None:
    """The session has read it then, so its socket has no data to wait for."""
    producer = make_producer()
    producer.listen(on_breaker=lambda *opened: None, deaf=lambda: None)
    heard: list[bool] = []

    def run() -> None:
        connection = producer.connect()
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_notify('pgqueue', 'emails')")
            heard.append(producer._wake.is_set())
            cursor.execute("SELECT pg_notify('pgqueue', 'default')")
            heard.append(producer._wake.is_set())

    role = Role("producer", run, crashed=lambda role, error: heard.append(False))
    role.start()
    role.join(PATIENCE_SECONDS)
    assert heard == [False, True]


def test_a_message_that_arrives_while_a_worker_falls_asleep_is_found(queue: None, connect: Connect) -> None:
    """Its enqueuer saw no sleeper and did not notify: the worker looks once more, after it has said that it sleeps."""
    found: list[Delivery] = []
    producer = make_producer(found)
    session = connect()
    session.execute("LOCK TABLE pgqueue_waiter IN SHARE MODE")
    once = Role("producer", producer.run_once, crashed=lambda role, error: None)
    once.start()
    eventually(
        lambda: sql("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ 'pgqueue_wait[(]'")
    )
    message = script()
    session.rollback()
    eventually(lambda: found)
    producer._wake.set()
    once.join()
    assert [delivery.id for delivery in found] == [message]


@pytest.mark.parametrize("listen", ["default", None])
def test_a_place_that_another_transaction_gives_back_is_not_left_until_the_next_poll(
    start: Start, connect: Connect, listen: str | None
) -> None:
    """A rollback sends no notification."""
    channel_set(channel="few", max_concurrency=2)
    messages = scripts(2, ["effect"], channel="few")
    other = connect()
    assert other.execute("SELECT id FROM pgqueue_dequeue('default', 1)").fetchall()
    start(listen=listen, poll_interval=NEVER)
    if listen:
        eventually(asleep)
    time.sleep(0.2)
    other.rollback()
    eventually(lambda: sorted(effects()) == [(message, 1) for message in messages], seconds=60)


def test_once_ends_although_another_transaction_holds_what_there_is(start: Start, connect: Connect) -> None:
    channel_set(channel="few", max_concurrency=2)
    messages = scripts(2, ["effect"], channel="few")
    other = connect()
    assert other.execute("SELECT id FROM pgqueue_dequeue('default', 1)").fetchall()
    idle = start(once=True)
    idle.join()
    assert effects() == []
    other.rollback()
    start(once=True).join()
    assert sorted(effects()) == [(message, 1) for message in messages]


def test_no_notification_is_sent_while_no_worker_sleeps(start: Start, connect: Connect) -> None:
    session = connect(autocommit=True)
    session.execute("LISTEN pgqueue")
    worker = start(listen="default", poll_interval=NEVER)
    eventually(sleepers)
    worker.stop()
    worker.join()
    assert not sleepers()
    script()
    assert list(session.notifies(timeout=0.2)) == []


@pytest.mark.parametrize(("notify", "notifications"), [("waiting", 0), ("always", 1)])
def test_a_worker_that_has_found_work_is_notified_only_if_it_always_wants_to_be(
    queue: None, connect: Connect, notify: str, notifications: int
) -> None:
    session = connect(autocommit=True)
    session.execute("LISTEN pgqueue")
    producer = make_producer(notify=notify, poll_interval=timedelta(seconds=5))
    once = Role("producer", producer.run_once, crashed=lambda role, error: None)
    once.start()
    eventually(asleep)
    scripts(2)
    assert len(list(session.notifies(timeout=PATIENCE_SECONDS, stop_after=1))) == 1
    assert list(session.notifies(timeout=0.2)) == []
    producer._wake.set()
    once.join()
    assert producer.run_once() == 2
    assert sleepers() == notifications
    script()
    assert (
        len(list(session.notifies(timeout=PATIENCE_SECONDS if notifications else 0.2, stop_after=1))) == notifications
    )


def test_a_worker_of_another_queue_sleeps_on(start: Start) -> None:
    channel_set(channel="default", queue="emails")
    start(listen="default", poll_interval=NEVER, queues=("emails",))
    eventually(asleep)
    other, own = script(), script(["effect"], queue="emails")
    eventually(lambda: effects() == [(own, 1)])
    assert where(other) == "live: ready"


def test_a_stop_just_before_the_look_does_not_wait_for_the_poll(queue: None, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = make_producer()
    stop = threading.Thread(target=producer.stop, args=(PATIENCE_SECONDS,))

    def stop_now() -> None:
        if not stop.ident:
            stop.start()
            eventually(producer._wake.is_set)

    monkeypatch.setattr(producer._looks, "rest", stop_now)
    producer.start()
    eventually(lambda: not producer.is_alive(), seconds=30)
    stop.join()


def test_polling_needs_no_listener(start: Start) -> None:
    start(listen=None)
    message = script(["effect"])
    eventually(lambda: effects() == [(message, 1)])
    assert sql("SELECT 1 FROM pgqueue_waiter") == []
    assert sql(LISTENERS) == []


def test_a_message_that_becomes_due_is_started_without_a_poll(start: Start) -> None:
    start(listen=None, poll_interval=NEVER, maintenance=True)
    time.sleep(0.3)  # the worker has looked, and sleeps
    message = script(["effect"], delay=timedelta(seconds=0.3))
    eventually(lambda: effects() == [(message, 1)])


def test_a_settlement_lets_the_next_of_a_limited_channel_start(start: Start) -> None:
    channel_set(channel="narrow", max_concurrency=1)
    messages = scripts(5, ["effect"], channel="narrow")
    start(listen=None, poll_interval=NEVER, concurrency=4)
    eventually(lambda: len(effects()) == len(messages))


def test_a_settlement_lets_the_next_of_a_limited_queue_start(start: Start) -> None:
    queue_set(max_concurrency=1)
    messages = scripts(5, ["effect"])
    start(listen=None, poll_interval=NEVER, concurrency=4)
    eventually(lambda: len(effects()) == len(messages))


def test_a_place_that_one_worker_frees_is_used_by_another_one(start: Start) -> None:
    """The first worker leaves, so only the sleeper can use the place."""
    queue_set(max_concurrency=1)
    first = start(listen="default", poll_interval=NEVER, name="first")
    running = script(["mark", "started"], ["await", "end"], ["effect"])
    eventually(lambda: sql("SELECT 1 FROM scripted_mark WHERE name = 'started'"))
    waiting = script(["effect"])
    start(listen="default", poll_interval=NEVER, name="second")
    eventually(lambda: sql("SELECT 1 FROM pgqueue_waiter WHERE worker = 'second'"))
    time.sleep(0.2)
    assert effects() == []
    stopping = threading.Thread(target=first.stop)
    stopping.start()
    sql("INSERT INTO scripted_mark (name) VALUES ('end')")
    stopping.join(PATIENCE_SECONDS)

    eventually(lambda: sorted(effects()) == [(running, 1), (waiting, 1)], seconds=60)


def test_a_queue_with_a_rate_goes_on_without_a_poll(start: Start) -> None:
    queue_set(rate="10/s")
    messages = scripts(5, ["effect"])
    start(listen=None, poll_interval=NEVER, concurrency=4)
    eventually(lambda: len(effects()) == len(messages))


def test_a_listener_that_lost_its_connection_comes_back(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "django_pgqueue")
    start(listen="default", poll_interval=NEVER)
    eventually(asleep)
    [[first]] = eventually(lambda: sql(LISTENERS))
    sql("SELECT pg_terminate_backend(%s)", first)
    eventually(lambda: [row for row in sql(LISTENERS) if row != (first,)])
    eventually(asleep)
    message = script(["effect"])
    eventually(lambda: (message, 1) in effects())
    assert [record.event for record in caplog.records if "connection" in record.message] == ["connection_lost"]


def test_a_message_that_was_enqueued_without_a_listener_is_found_after_the_reconnect(start: Start) -> None:
    start(listen="default", poll_interval=NEVER)
    eventually(asleep)
    [[listener]] = eventually(lambda: sql(LISTENERS))
    # In one transaction: when the message appears, the listener is gone, and no notification was sent.
    with transaction.atomic():
        sql("SET LOCAL pgqueue.notify = off")
        sql("SELECT pg_terminate_backend(%s)", listener)
        message = script(["effect"])
    eventually(lambda: effects() == [(message, 1)])
