"""Plain SQL sessions as producers, workers and operators: nothing stands between these tests and PostgreSQL."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb

Session = psycopg.Connection[Any]

# PGQUEUE_STRESS=20 repeats each randomized test with twenty times as many seeds.
STRESS = int(os.environ.get("PGQUEUE_STRESS", "1"))
# A session that has to wait for a lock fails instead.
IMPATIENT = "-c lock_timeout=500ms -c statement_timeout=60s"


class Lease(NamedTuple):
    id: int
    channel: str
    token: UUID
    attempts: int


def seeds(count: int) -> range:
    return range(count * STRESS)


def make_channel(session: Session, name: str, queue: str = "default", **limits: Any) -> int:
    return one(session, "SELECT id FROM pgqueue_channel_set(%s, %s, %s)", queue, name, Jsonb(limits))


def one(session: Session, sql: str, *params: Any) -> Any:
    """The first column of the only row."""
    row = session.execute(sql, params).fetchone()
    return None if row is None else row[0]


def column(session: Session, sql: str, *params: Any) -> list[Any]:
    return [row[0] for row in session.execute(sql, params).fetchall()]


def enqueue(session: Session, channel: str = "default", queue: str = "default", **arguments: Any) -> int:
    """The id of the new message; arguments as in pgqueue_enqueue, without p_."""
    named = "".join(f", p_{name} => %s" for name in arguments)
    sql = f"SELECT id FROM pgqueue_enqueue('work', '{{}}', %s, %s{named})"
    return one(session, sql, channel, queue, *arguments.values())


def enqueue_many(session: Session, channels: Iterable[str], queue: str = "default") -> list[int]:
    """One statement for many messages, one a name in `channels`. Their attempts are not used up by chance."""
    names = list(channels)
    return column(
        session,
        "SELECT id FROM pgqueue_enqueue_many(%s, array_fill('{}'::jsonb, %s), %s, %s, p_max_attempts => %s)",
        ["work"] * len(names),
        [len(names)],
        names,
        [queue] * len(names),
        [1000] * len(names),
    )


def fill(session: Session, channel: str, count: int) -> None:
    """A backlog, in one statement."""
    enqueue_many(session, [channel] * count)


def dequeue(session: Session, limit: int = 1, *, queue: str = "default", lease: str = "1 minute") -> list[Lease]:
    rows = session.execute(
        "SELECT id, channel, token, attempts FROM pgqueue_dequeue(%s, %s, %s::interval)", [queue, limit, lease]
    )
    return [Lease(*row) for row in rows]


def settle(session: Session, leases: Iterable[Lease], verb: str = "complete", *more: Any) -> list[int]:
    """pgqueue_<verb>(ids, tokens, …) in the order of ids."""
    ordered = sorted(leases)
    extra = ", %s" * len(more)
    return column(
        session,
        f"SELECT pgqueue_{verb}(%s, %s{extra})",
        [lease.id for lease in ordered],
        [lease.token for lease in ordered],
        *more,
    )


def retry(session: Session, leases: Iterable[Lease], delay: str = "0") -> None:
    ordered = sorted(leases)
    session.execute(
        "SELECT * FROM pgqueue_retry(%s, %s, array_fill('{}'::jsonb, %s), array_fill(%s::interval, %s))",
        [[x.id for x in ordered], [x.token for x in ordered], [len(ordered)], delay, [len(ordered)]],
    )


def tick(session: Session, times: int = 1) -> None:
    for _ in range(times):
        session.execute("SELECT pgqueue_tick()")


def drain(session: Session, limit: int = 10, *, queue: str = "default") -> list[Lease]:
    """Dequeue and complete until nothing comes."""
    taken: list[Lease] = []
    while leases := dequeue(session, limit, queue=queue):
        settle(session, leases)
        taken += leases
    return taken


def together(*actions: Callable[[], Any]) -> list[Any]:
    """Run the actions in a thread each, started at one moment. Returns their results, or raises the first error."""
    barrier = threading.Barrier(len(actions))
    results: list[Any] = [None] * len(actions)
    errors: list[BaseException] = []

    def run(place: int, action: Callable[[], Any]) -> None:
        barrier.wait()
        try:
            results[place] = action()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=item, daemon=True) for item in enumerate(actions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(200)
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads), "a session hangs"
    return results


def waits(session: Session, other: Session, timeout: float = 60) -> None:
    """Return when the backend of `other` waits for a lock, as seen by `session`."""
    deadline = time.monotonic() + timeout
    sql = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s"
    while not one(session, sql, other.info.backend_pid):
        assert time.monotonic() < deadline, "it does not wait"
        time.sleep(0.005)


class Chance:
    """A source of randomness for each thread, all from one seed."""

    def __init__(self, seed: int, name: str) -> None:
        self.random = random.Random(f"{seed}/{name}")

    def of(self, probability: float) -> bool:
        return self.random.random() < probability

    def pause(self, longest: float) -> None:
        time.sleep(self.random.random() * longest)
