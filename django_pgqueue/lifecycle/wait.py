"""wait: announce that a worker falls asleep, so that the next enqueue notifies it; and for how long it may sleep."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call


def wait(worker: str, queues: Iterable[str], duration: timedelta, *, using: str | None = None) -> None:
    """Register the sleeper for ``duration``; zero: it is awake. Look at the queues once more before you sleep."""
    call(alias(using), "SELECT pgqueue_wait(%s::text, %s::text[], %s::interval)", (worker, list(queues), duration))


def is_contended(queues: Iterable[str], *, using: str | None = None) -> bool:
    """Return whether an empty dequeue of these queues left out what another consumer holds at this moment.

    Nobody notifies when that is given back, so look again soon.
    """
    contended: bool
    [(contended,)] = call(alias(using), "SELECT pgqueue_is_contended(%s::text[])", (list(queues),))
    return contended


def next_due(queues: Iterable[str], *, using: str | None = None) -> timedelta | None:
    """How long until a channel that waits for its rate may be served again: nobody notifies of that.

    None: no channel waits for its rate. Zero or less: look now.
    """
    due: timedelta | None
    [(due,)] = call(alias(using), "SELECT pgqueue_next_due(%s::text[])", (list(queues),))
    return due
