"""Calls of the functions that a stream uses."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

import pytest

from tests.support.sessions import Session, column, one


class Claim(NamedTuple):
    batch: int
    messages: int
    settled: int
    lost: int
    contended: bool = False


@pytest.fixture(autouse=True)
def no_streams(session: Session) -> None:
    session.execute("TRUNCATE pgqueue_stream, pgqueue_stream_claim")


def open_stream(session: Session, name: str = "s", queue: str = "default", channel: str | None = None) -> UUID:
    return one(session, "SELECT owner FROM pgqueue_stream_open(%s, %s, %s)", name, queue, channel)


def claim(
    session: Session, owner: UUID, after: int, limit: int = 100, *, name: str = "s", lease: str = "1 minute"
) -> Claim:
    return Claim(
        *session.execute(
            "SELECT * FROM pgqueue_stream_claim(%s, %s, %s, %s, %s::interval)", [name, owner, after, limit, lease]
        ).fetchone()
    )


def claimed(session: Session, name: str = "s") -> list[int]:
    return column(
        session, "SELECT message_id FROM pgqueue_stream_claim WHERE stream = %s ORDER BY batch, message_id", name
    )


def archived(session: Session) -> list[int]:
    return column(session, "SELECT id FROM pgqueue_archived_message ORDER BY id")
