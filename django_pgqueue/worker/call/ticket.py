"""Decide which of two threads may settle a run, when both try at the same time."""

from __future__ import annotations


class Ticket:
    """Grant a right to the first of several threads. It needs no lock, because ``pop`` is atomic."""

    __slots__ = ("_ticket",)

    def __init__(self) -> None:
        self._ticket = [None]

    def take(self) -> bool:
        """Take the ticket. Returns True to the first caller, and False to all others."""
        try:
            self._ticket.pop()
        except IndexError:
            return False
        return True

    @property
    def is_free(self) -> bool:
        """Return whether the ticket is not taken yet."""
        return bool(self._ticket)
