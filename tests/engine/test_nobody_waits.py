"""No call waits for a session that is slow, stopped or in a long transaction, and none loses what another one holds."""

from __future__ import annotations

import threading
import time
from collections import Counter

import psycopg

from tests.engine.engine import Engine


def test_open_channels_are_served_beside_a_session_that_keeps_the_line(engine: Engine) -> None:
    engine.channel("limited", most=3)
    engine.channel("plain")
    engine.fill("limited", 9)
    engine.fill("plain", 9)
    engine.dequeue(2)
    stopped = engine.sessions(autocommit=False)
    engine.enqueue("limited")
    held = engine.dequeue(1, session=stopped)
    began = time.monotonic()
    got = Counter(lease.channel for _ in range(12) for lease in engine.dequeue(1))
    assert time.monotonic() - began < 3
    assert got["plain"] >= 7
    # The limit holds, for what the stopped session has leased, too.
    assert got["limited"] + [lease.channel for lease in held].count("limited") <= 2
    stopped.rollback()
    assert "limited" in {lease.channel for lease in engine.dequeue(9)} or got["limited"] == 2


def test_a_new_tenant_is_served_beside_a_session_that_keeps_the_line(engine: Engine) -> None:
    engine.channel("limited", most=5)
    engine.fill("limited", 3)
    stopped = engine.sessions(autocommit=False)
    assert engine.dequeue(1, session=stopped)
    engine.channel("new")
    message = engine.enqueue("new")
    assert [lease.id for lease in engine.dequeue()] == [message]


def test_an_enqueue_and_a_settlement_do_not_wait_for_the_line(engine: Engine) -> None:
    engine.channel("limited", most=5)
    engine.fill("limited", 3)
    lease = engine.dequeue()
    stopped = engine.sessions(autocommit=False)
    engine.dequeue(1, session=stopped)
    engine.session.execute("SET statement_timeout = '2s'")
    engine.enqueue("limited")
    engine.complete(*lease)


def test_a_message_of_a_transaction_that_commits_late_is_delivered(engine: Engine) -> None:
    engine.channel("one")
    engine.fill("one", 3)
    late = engine.sessions(autocommit=False)
    message = engine.enqueue("one", priority=-5, session=late)
    engine.channel("two")
    hidden = engine.enqueue("two", session=late)
    engine.served(4, 1)
    engine.tick(6)
    late.commit()
    assert {lease.id for lease in engine.dequeue(1) + engine.dequeue(1)} == {message, hidden}


def test_a_lane_whose_messages_another_transaction_holds_stays_in_the_line(engine: Engine) -> None:
    engine.channel("one")
    message = engine.enqueue("one")
    other = engine.sessions(autocommit=False)
    engine.cancel(message, session=other)
    assert engine.dequeue() == []
    other.rollback()
    assert [lease.id for lease in engine.dequeue()] == [message]


def test_dequeues_of_two_queues_with_the_same_limits_do_not_deadlock(engine: Engine) -> None:
    limits = [engine.limit(name, 1000) for name in ("a", "b", "c")]
    engine.queue("other")
    for number in range(6):
        queue = ("default", "other")[number % 2]
        engine.channel(f"c{number}", queue=queue)
        for some in ([0], [2, 1], [1, 0], [0, 2]):
            engine.fill(f"c{number}", 40, limits=[limits[place] for place in some])
    failures: list[Exception] = []

    def consume(queue: str) -> None:
        session = engine.sessions()
        try:
            for _ in range(30):
                leases = engine.dequeue(20, queue=queue, session=session)
                if leases:
                    engine.complete(*leases, session=session)
        except psycopg.Error as error:
            failures.append(error)

    consumers = [threading.Thread(target=consume, args=(queue,)) for queue in ("default", "other") * 2]
    for consumer in consumers:
        consumer.start()
    for consumer in consumers:
        consumer.join()
    assert failures == []


def test_a_large_insert_over_many_channels_does_not_keep_another_tenant_waiting(engine: Engine) -> None:
    engine.session.execute("SELECT pgqueue_channel_make('default', 'c' || n) FROM generate_series(1, 3000) AS n")
    engine.session.execute(
        "INSERT INTO pgqueue_message (channel_id, handler) SELECT id, 'work' FROM pgqueue_channel ORDER BY id"
    )
    engine.channel("new")
    message = engine.enqueue("new")
    seen = [message in {lease.id for lease in engine.dequeue(10)} for _ in range(30)]
    assert any(seen)


def test_a_dequeue_waits_for_the_disk_unless_its_caller_flushes(engine: Engine) -> None:
    session = engine.sessions(autocommit=False)
    engine.dequeue(session=session)
    assert engine.value("SHOW synchronous_commit", session=session) == "on"
    session.execute("SELECT FROM pgqueue_dequeue(p_flushes => true)")
    assert engine.value("SHOW synchronous_commit", session=session) == "off"
    session.commit()
    assert engine.value("SHOW synchronous_commit", session=session) == "on"


def test_pins_do_not_make_a_dequeue_walk_what_has_died(engine: Engine) -> None:
    for number in range(20):
        engine.channel(f"c{number}")
        engine.fill(f"c{number}", 60)
    engine.tick(3)
    pin = engine.sessions(autocommit=False)
    pin.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    pin.execute("SELECT count(*) FROM pgqueue_message")
    seen = []
    for _ in range(5):
        engine.served(200, 1)
        engine.tick(2)
        plan = engine.value("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM pgqueue_dequeue()")
        seen.append(plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"])
    assert min(seen[3:]) < 3 * max(seen[0], 60), seen
