"""The right to have the last word on something, which two threads may want at the same time."""

from __future__ import annotations


class Ticket:
    """Exactly one call of :meth:`take` gets it. No lock: ``pop`` happens in one step."""

    __slots__ = ("_ticket",)

    def __init__(self) -> None:
        self._ticket = [None]

    def take(self) -> bool:
        """Return whether the caller has got it."""
        try:
            self._ticket.pop()
        except IndexError:
            return False
        return True

    @property
    def is_free(self) -> bool:
        """Return whether it is not taken yet."""
        return bool(self._ticket)
