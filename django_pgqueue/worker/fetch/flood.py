"""Whether messages trickle in or come in a flood."""

from __future__ import annotations

# So many looks in a row that find something are a flood; so many that find nothing are its end.
FLOOD = 3
EBB = 3


class Flood:
    """``rose``: a flood was seen, and its end was not."""

    def __init__(self) -> None:
        self.rose = False
        self._successes = 0
        self._failures = 0

    def looked(self, found: int) -> None:
        self._successes = self._successes + 1 if found else 0
        self._failures = 0 if found else self._failures + 1

    def is_here(self, found: int, room: int) -> bool:
        return 1 < found == room or self._successes >= FLOOD

    def may_go_on(self) -> bool:
        return self.rose and self._failures < EBB

    def rest(self, shortest: float) -> float:
        """Seconds until the next look, while it may go on: longer each time."""
        return float(shortest * 2**self._failures)
