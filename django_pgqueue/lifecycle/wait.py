"""wait: announce that a worker falls asleep, so that the next enqueue notifies it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call


def wait(worker: str, queues: Iterable[str], duration: timedelta, *, using: str | None = None) -> None:
    """Register the sleeper for ``duration``; zero: it is awake. Look at the queues once more before you sleep."""
    call(alias(using), "SELECT pgqueue_wait(%s::text, %s::text[], %s::interval)", (worker, list(queues), duration))
