"""The verbs as plain SQL: producers, workers and operators are sessions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.types.json import Jsonb

from tests.support.sessions import Session, column, one


class Lease(NamedTuple):
    id: int
    channel: str
    token: UUID
    attempts: int


def make_channel(session: Session, name: str, queue: str = "default", **limits: Any) -> int:
    """Make or change a channel. Returns its id."""
    return one(session, "SELECT id FROM pgqueue_channel_set(%s, %s, %s)", queue, name, Jsonb(limits))


def set_queue(session: Session, queue: str = "default", **settings: Any) -> None:
    """Change the settings of a queue."""
    assert one(session, "SELECT outcome FROM pgqueue_queue_set(%s, %s)", queue, Jsonb(settings)) == "changed"


def enqueue(session: Session, channel: str = "default", queue: str = "default", **arguments: Any) -> int:
    """Enqueue a message. Returns its id. The arguments are those of pgqueue_enqueue, without p_."""
    named = "".join(f", p_{name} => %s" for name in arguments)
    sql = f"SELECT id FROM pgqueue_enqueue('work', '{{}}', %s, %s{named})"
    return one(session, sql, channel, queue, *arguments.values())


def enqueue_many(session: Session, channels: Iterable[str], queue: str = "default") -> list[int]:
    """Enqueue a message for each name in ``channels``, in one statement. Returns their ids.

    They have so many attempts that chance does not use them up.
    """
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
    """Enqueue so many messages to one channel, in one statement."""
    enqueue_many(session, [channel] * count)


def dequeue(session: Session, limit: int = 1, *, queue: str = "default", lease: str = "1 minute") -> list[Lease]:
    """Lease up to ``limit`` messages. ``lease``: an interval, as PostgreSQL reads it."""
    rows = session.execute(
        "SELECT id, channel, token, attempts FROM pgqueue_dequeue(%s, %s, %s::interval)", [queue, limit, lease]
    )
    return [Lease(*row) for row in rows]


def settle(session: Session, leases: Iterable[Lease], verb: str = "complete", *more: Any) -> list[int]:
    """Call pgqueue_<verb>(ids, tokens, …) in the order of ids. Returns its first column."""
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
    """Return messages to their channels after a failure, by pgqueue_retry."""
    ordered = sorted(leases)
    session.execute(
        "SELECT * FROM pgqueue_retry(%s, %s, array_fill('{}'::jsonb, %s), array_fill(%s::interval, %s))",
        [[x.id for x in ordered], [x.token for x in ordered], [len(ordered)], delay, [len(ordered)]],
    )


def tick(session: Session, times: int = 1) -> None:
    """Do what maintenance does each second."""
    for _ in range(times):
        session.execute("SELECT pgqueue_tick()")


def drain(session: Session, limit: int = 10, *, queue: str = "default") -> list[Lease]:
    """Dequeue and complete until nothing comes. Returns all leases."""
    taken: list[Lease] = []
    while leases := dequeue(session, limit, queue=queue):
        settle(session, leases)
        taken += leases
    return taken


def limit_set(session: Session, name: str, **settings: Any) -> int:
    """Make or change a shared limit. Returns its id."""
    return one(session, "SELECT id FROM pgqueue_limit_set(%s, %s)", name, Jsonb(settings))


def send(
    session: Session, channel: str, count: int = 1, limits: Iterable[str] = ("stripe",), **arguments: Any
) -> list[int]:
    """Enqueue so many messages that have these shared limits. Returns their ids."""
    return [enqueue(session, channel, limits=list(limits), **arguments) for _ in range(count)]
