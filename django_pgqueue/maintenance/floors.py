"""Run the tick: raise the floors to what is live, and make scheduled messages ready that are due."""

from __future__ import annotations

from dataclasses import dataclass

from django_pgqueue.lifecycle.tick import tick_and_count

# A tick that walks MANY_ENTRIES of the indexes is followed by the next one after SHORT_PART of the interval. Only an open
# snapshot keeps so many: each dequeue walks what has died since the last tick, several times.
MANY_ENTRIES = 200
SHORT_PART = 0.25


@dataclass(frozen=True, slots=True)
class TickCounts:
    """Hold the number of messages that a tick made ready, and the part of the interval until the next one."""

    promoted: int
    part: float = 1.0


def run_once(using: str) -> TickCounts:
    """Raise the floors and make due messages ready on the database ``using``, once. Returns the counts.

    Raises the database's error.
    """
    done = tick_and_count(using=using)
    return TickCounts(done.promoted, SHORT_PART if done.walked >= MANY_ENTRIES else 1.0)
