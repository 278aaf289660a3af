"""Decide whether messages trickle in or come in a flood."""

from __future__ import annotations

# Looks in a row: a flood begins after so many that found something, and ends after so many that found nothing.
FLOOD_LOOKS = 3
EBB_LOOKS = 3


class Flood:
    """Counts looks. ``rose``: a flood has begun and not ended."""

    def __init__(self) -> None:
        self.rose = False
        self._successes = 0
        self._failures = 0

    def looked(self, found: int) -> None:
        self._successes = self._successes + 1 if found else 0
        self._failures = 0 if found else self._failures + 1

    def is_here(self, found: int, room: int) -> bool:
        return 1 < found == room or self._successes >= FLOOD_LOOKS

    def may_go_on(self) -> bool:
        return self.rose and self._failures < EBB_LOOKS

    def rest(self, shortest: float) -> float:
        """Return the seconds until the next look while the flood may go on; they double each time."""
        return float(shortest * 2**self._failures)
