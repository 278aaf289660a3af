"""Producers, consumers and pauses at once: nothing is lost or doubled, no limit is passed, no order is broken."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

import psycopg

from tests.engine.engine import Engine

SECONDS = 4
PRODUCERS, CONSUMERS = 3, 5


@dataclass
class Sent:
    """What a message has to respect: the meters that count it, and the group that is delivered in order."""

    meters: tuple[object, ...]
    group: object


@dataclass
class Storm:
    """What the threads have seen, under one lock."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    sent: dict[int, Sent] = field(default_factory=dict)
    committed: set[int] = field(default_factory=set)
    done: Counter[int] = field(default_factory=Counter)
    running: Counter[object] = field(default_factory=Counter)
    most: Counter[object] = field(default_factory=Counter)
    holders: dict[object, int] = field(default_factory=dict)
    last: Counter[object] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def test_nothing_is_lost_doubled_over_a_limit_or_out_of_order(engine: Engine) -> None:
    shared = [engine.limit("three", 3), engine.limit("two", 2)]
    engine.queue("other", most=4)
    for number in range(6):
        engine.channel(f"plain{number}", weight=1 + number % 3)
    for number in range(2):
        engine.channel(f"narrow{number}", most=2)
        engine.channel(f"other{number}", queue="other")
    for number in range(PRODUCERS):
        engine.channel(f"ordered{number}", ordered=True)
        engine.channel(f"keyed{number}")
    storm = Storm()
    over, drained = threading.Event(), threading.Event()

    def produce(number: int) -> None:
        chance = random.Random(number)
        session = engine.sessions(autocommit=False)
        while not over.is_set():
            new: dict[int, Sent] = {}
            for _ in range(chance.randint(1, 4)):
                channel, key, some = chance.choice(
                    [
                        (f"plain{chance.randint(0, 5)}", None, chance.choice([None, None, shared[:1], shared])),
                        (f"narrow{chance.randint(0, 1)}", None, chance.choice([None, shared[1:]])),
                        (f"other{chance.randint(0, 1)}", None, chance.choice([None, shared[:1]])),
                        (f"ordered{number}", None, None),
                        (f"keyed{number}", f"key {chance.randint(0, 2)}", chance.choice([None, None, shared[1:]])),
                    ]
                )
                queue = "other" if channel.startswith("other") else "default"
                message = engine.enqueue(channel, queue=queue, key=key, limits=some, session=session)
                meters = [*(some or []), *([channel] if "narrow" in channel else []), queue]
                group = channel if "ordered" in channel else (channel, key) if key else None
                new[message] = Sent(tuple(meters), group)
            with storm.lock:
                storm.sent |= new
            if chance.random() < 0.1:
                time.sleep(chance.random() * 0.3)
            if chance.random() < 0.1:
                session.rollback()
                continue
            session.commit()
            with storm.lock:
                storm.committed |= set(new)
            time.sleep(chance.expovariate(30))

    def consume(number: int) -> None:
        chance = random.Random(100 + number)
        session = engine.sessions()
        while not drained.is_set():
            leases = engine.dequeue(
                chance.choice([1, 1, 3, 10]), queue="other" if number % 3 == 0 else "default", session=session
            )
            if not leases:
                time.sleep(0.005)
            with storm.lock:
                for lease in leases:
                    note(storm, lease.id)
            for lease in leases:
                again = chance.random() < 0.15
                with storm.lock:
                    forget(storm, lease.id, again)
                arguments = ([lease.id], [lease.token])
                if again:
                    delay = chance.choice(["0", "50 milliseconds"])
                    session.execute("SELECT pgqueue_retry(%s, %s, %s::interval)", (*arguments, delay))
                else:
                    session.execute("SELECT pgqueue_complete(%s, %s)", arguments)

    def tick() -> None:
        session = engine.sessions()
        chance = random.Random(7)
        while not drained.is_set():
            session.execute("SELECT pgqueue_tick()")
            if not over.is_set() and chance.random() < 0.1:
                session.execute("SELECT pgqueue_meter_close(%s, 'infinity')", (shared[0],))
                time.sleep(0.1)
                session.execute("SELECT pgqueue_meter_close(%s, NULL)", (shared[0],))
            time.sleep(0.05)

    failures: list[BaseException] = []
    producers = [thread(produce, failures, number) for number in range(PRODUCERS)]
    others = [*(thread(consume, failures, number) for number in range(CONSUMERS)), thread(tick, failures)]
    time.sleep(SECONDS)
    over.set()
    for one in producers:
        one.join()
    until = time.monotonic() + 120
    while time.monotonic() < until and storm.committed - set(storm.done) and not failures:
        time.sleep(0.1)
    time.sleep(0.2)
    drained.set()
    for one in others:
        one.join()
    assert failures == []
    assert storm.wrong == []
    assert set(storm.done) == storm.committed, state(engine, storm.committed - set(storm.done))
    assert max(storm.done.values()) == 1
    bounds = {shared[0]: 3, shared[1]: 2, "other": 4, "narrow0": 2, "narrow1": 2}
    assert {meter: storm.most[meter] for meter, bound in bounds.items() if storm.most[meter] > bound} == {}
    assert len(storm.done) > 50
    assert engine.value("SELECT count(*) FROM pgqueue_message") == 0
    assert engine.levels() == {}


def state(engine: Engine, left: set[int]) -> str:
    """What leads to messages that were not delivered."""
    session = engine.sessions()
    rows = session.execute("SELECT m::text FROM pgqueue_live AS m WHERE m.id = ANY (%s)", (list(left),)).fetchall()
    for table in ("lane", "note", "level", "meter", "floor"):
        rows += session.execute(f"SELECT '{table} ' || t::text FROM pgqueue_{table} AS t").fetchall()
    return "\n".join(text for (text,) in rows)


def note(storm: Storm, message: int) -> None:
    sent = storm.sent[message]
    if storm.done[message]:
        storm.wrong.append(f"message {message} was delivered after its settlement")
    del storm.done[message]
    for meter in sent.meters:
        storm.running[meter] += 1
        storm.most[meter] = max(storm.most[meter], storm.running[meter])
    if sent.group:
        if storm.holders.get(sent.group, message) != message:
            storm.wrong.append(f"{sent.group} had two messages at once")
        if storm.last[sent.group] > message:
            storm.wrong.append(f"{sent.group} was delivered out of order")
        storm.holders[sent.group] = storm.last[sent.group] = message


def forget(storm: Storm, message: int, again: bool) -> None:
    sent = storm.sent[message]
    for meter in sent.meters:
        storm.running[meter] -= 1
    if not again:
        storm.done[message] += 1
        storm.holders.pop(sent.group, None)


def thread(target, failures: list[BaseException], *arguments: object) -> threading.Thread:  # type: ignore[no-untyped-def]
    def run() -> None:
        try:
            target(*arguments)
        except psycopg.Error as error:
            failures.append(error)

    started = threading.Thread(target=run)
    started.start()
    return started
