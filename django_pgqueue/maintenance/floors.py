"""Run the tick: raise the floors to what is live, and make scheduled messages ready that are due."""

from __future__ import annotations

from dataclasses import dataclass

from django_pgqueue.lifecycle.tick import tick


@dataclass(frozen=True, slots=True)
class TickCounts:
    """Hold the number of messages that a tick made ready."""

    promoted: int


def run_once(using: str) -> TickCounts:
    """Raise the floors and make due messages ready on the database ``using``, once. Returns the counts.

    Raises the database's error.
    """
    return TickCounts(tick(using=using))
