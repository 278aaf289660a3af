"""tick: promote messages that are due and move the floors, a few times a second."""

from __future__ import annotations

from typing import NamedTuple

from django_pgqueue.lifecycle.arguments import checked_whole
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call


class Tick(NamedTuple):
    """Hold what a tick did: ``promoted`` messages became ready, and ``walked`` index entries were read, most of them
    dead.
    """

    promoted: int
    walked: int


def tick(limit: int = 1000, *, using: str | None = None) -> int:
    """Make scheduled messages ready whose time has come, and move the floors of the line. Returns how many messages.

    ``limit``: the most messages of one call. ``using``: database alias; default: the queue's.
    """
    return tick_and_count(limit, using=using).promoted


def tick_and_count(limit: int = 1000, *, using: str | None = None) -> Tick:
    """Do what :func:`tick` does. Returns the counts."""
    statement = "SELECT t.promoted, pgqueue_entries_walked() FROM pgqueue_tick(%s::integer) AS t (promoted)"
    return Tick(*call(alias(using), statement, (checked_whole(limit, "limit", least=0),))[0])
