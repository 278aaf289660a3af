"""Decide whether messages trickle in or come in a flood."""

from __future__ import annotations

# A flood begins after FLOOD_LOOKS looks in a row that found messages, and ends after EBB_LOOKS that found none.
FLOOD_LOOKS = 3
EBB_LOOKS = 3


class Flood:
    """Count the producer's looks, to decide whether it needs notifications: in a flood it looks again by itself.

    ``rose``: whether a flood has begun and not ended; the producer sets it.
    """

    def __init__(self) -> None:
        self.rose = False
        self._successes = 0
        self._failures = 0

    def looked(self, found: int) -> None:
        """Record that a dequeue has returned ``found`` messages."""
        self._successes = self._successes + 1 if found else 0
        self._failures = 0 if found else self._failures + 1

    def is_here(self, found: int, room: int) -> bool:
        """Return whether the messages come in a flood.

        ``found``, ``room``: how many messages the last dequeue returned, and for how many it asked.
        """
        return 1 < found == room or self._successes >= FLOOD_LOOKS

    def may_go_on(self) -> bool:
        """Return whether a flood has begun, and too few looks found nothing to end it."""
        return self.rose and self._failures < EBB_LOOKS

    def rest(self, shortest: float) -> float:
        """Return the seconds until the next look: ``shortest`` seconds, doubled for each look that found nothing."""
        return float(shortest * 2**self._failures)
