"""Settlements in other sessions, for tests of races."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import UUID

from tests.support.sessions import Connect, Session, together

Taken = list[tuple[int, UUID]]


def take(session: Session, count: int) -> Taken:
    return session.execute("SELECT id, token FROM pgqueue_dequeue('default', %s)", [count]).fetchall()


def complete(session: Session, taken: Taken) -> None:
    ids, tokens = zip(*taken, strict=True)
    session.execute("SELECT pgqueue_complete(%s, %s)", [list(ids), list(tokens)])


def settle(session: Session, taken: Taken) -> None:
    complete(session, taken)
    session.commit()


def settle_crosswise(left: Session, right: Session, taken: Taken) -> None:
    """Complete the first two of the four by one session each, then the others the other way round, and commit."""
    complete(left, [taken[0]])
    complete(right, [taken[2]])
    with in_background(partial(settle, left, [taken[3]])):
        settle(right, [taken[1]])


def settle_together(connect: Connect, taken: Taken, size: int) -> None:
    """Complete them by four sessions at once, ``size`` in a call."""

    def work(number: int) -> None:
        mine = taken[number::4]
        for at in range(0, len(mine), size):
            complete(sessions[number], mine[at : at + size])

    sessions = [connect(autocommit=True) for _ in range(4)]
    together(*(partial(work, number) for number in range(4)))


@contextmanager
def in_background(action: Callable[[], Any]) -> Iterator[threading.Thread]:
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    yield thread
    thread.join(60)
    assert not thread.is_alive()
