"""Calls of the queue in SQL, for tests that crash their server between them."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from tests.support.sessions import Session, one, row_of

MESSAGE = "pgqueue_message"


def connect(url: str) -> Session:
    return psycopg.connect(url, autocommit=True)


def count(session: Session, table: str) -> int:
    return one(session, f"SELECT count(*) FROM {table}")


def channel(session: Session, name: str, **limits: Any) -> None:
    one(session, "SELECT pgqueue_channel_set('default', %s, %s)", name, Jsonb(limits))


def enqueue(session: Session, channel: str, messages: int, **arguments: Any) -> list[int]:
    given = {"p_handler": "work", "p_channel": channel, **arguments}
    named = ", ".join(f"{name} => %({name})s" for name in given)
    call = f"SELECT id FROM pgqueue_enqueue({named})"
    return [row_of(session.execute(call, given))[0] for _ in range(messages)]


def dequeue(session: Session, limit: int) -> tuple[list[int], list[Any]]:
    """Ids and tokens."""
    found = session.execute("SELECT id, token FROM pgqueue_dequeue(p_limit => %s)", [limit]).fetchall()
    return [message for message, _ in found], [token for _, token in found]


def complete(session: Session, leases: tuple[list[int], list[Any]]) -> None:
    done = one(session, "SELECT count(*) FROM pgqueue_complete(%s, %s)", *leases)
    assert done == len(leases[0])


def settled(session: Session) -> dict[str, list[int]]:
    """The ids of each outcome."""
    query = """
        SELECT outcome, array_agg(id ORDER BY id) FROM (
            SELECT outcome, id FROM pgqueue_archived_message UNION ALL SELECT reason, id FROM pgqueue_dead_letter
        ) AS s GROUP BY outcome
    """
    return dict(session.execute(query).fetchall())
