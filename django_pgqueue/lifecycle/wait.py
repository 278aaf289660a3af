"""wait: register a sleeping worker, so that the next enqueue notifies it, and compute how long it may sleep."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call
from django_pgqueue.sql.values import duration_of


def wait(worker: str, queues: Iterable[str], duration: timedelta, *, using: str | None = None) -> None:
    """Register a worker as sleeping for ``duration``; zero registers it as awake. Dequeue once more before you sleep.

    ``worker``: its name. ``queues``: the queues that it serves. ``using``: database alias; default: the queue's.
    """
    call(alias(using), "SELECT pgqueue_wait(%s::text, %s::text[], %s::interval)", (worker, list(queues), duration))


def is_contended(queues: Iterable[str], *, using: str | None = None) -> bool:
    """Return whether an empty dequeue of these queues skipped messages that another consumer locks at this moment.

    No notification follows when those locks are released, so dequeue again soon.
    """
    contended: bool
    [(contended,)] = call(alias(using), "SELECT pgqueue_is_contended(%s::text[])", (list(queues),))
    return contended


def next_due(queues: Iterable[str], *, using: str | None = None) -> timedelta | None:
    """Return the time until a channel that waits for its rate may be served again; no notification follows then.

    None: no channel waits for its rate. Zero or less: dequeue now.
    """
    [(due,)] = call(alias(using), "SELECT extract(epoch FROM pgqueue_next_due(%s::text[]))", (list(queues),))
    return duration_of(due)
