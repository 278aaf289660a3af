"""Run the tick: raise the floors to what is live, and make scheduled messages ready that are due."""

from __future__ import annotations

from dataclasses import dataclass

from django_pgqueue.lifecycle.upkeep import tick_and_count

# A tick that walks MANY_ENTRIES of the indexes in an interval is followed by the next one after SHORT_PART of it. Only
# an open snapshot keeps so many: each dequeue walks what has died since the last tick, several times.
MANY_ENTRIES = 200
SHORT_PART = 0.25


@dataclass(frozen=True, slots=True)
class TickCounts:
    """Hold the number of messages that a tick made ready, and the part of the interval until the next one."""

    promoted: int
    part: float = 1.0


class Floors:
    """Raise the floors, more often while an open snapshot keeps dead rows above them."""

    def __init__(self) -> None:
        self._part = 1.0

    def run_once(self, using: str) -> TickCounts:
        """Raise the floors and make due messages ready on the database ``using``, once. Returns the counts.

        Raises the database's error.
        """
        done = tick_and_count(using=using)
        # After a short time, as many a second are fewer.
        self._part = SHORT_PART if done.walked >= MANY_ENTRIES * self._part else 1.0
        return TickCounts(done.promoted, self._part)
