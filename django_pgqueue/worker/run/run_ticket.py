"""Decide which thread settles the messages of a run, and show them on the board until then.

A run is one call of a handler, or the call of a batch that failed and those of its messages one by one.
"""

from __future__ import annotations

from django_pgqueue.delivery import Delivery
from django_pgqueue.worker.board import Board
from django_pgqueue.worker.call.ticket import Ticket


class RunTicket(Ticket):
    """Let one thread settle the messages: the one that takes the ticket.

    The slot takes it when the handler has ended, or the thread of the deadlines when it gives the handler up. Until
    then the board shows the messages as running.
    """

    __slots__ = ("_board", "deliveries", "started_at")

    def __init__(self, board: Board, deliveries: list[Delivery], *, started_at: float, timeout: float) -> None:
        """Show the messages on the board. ``started_at``: time.monotonic(). ``timeout``: of one call, in seconds."""
        super().__init__()
        self.deliveries = deliveries
        self.started_at = started_at
        self._board = board
        # After a batch that failed, its messages run one by one.
        calls = 1 if len(deliveries) == 1 else 1 + len(deliveries)
        board.begin(deliveries, started_at + calls * timeout)

    def take(self) -> bool:
        """Take the ticket. Returns whether the caller settles the messages, which no longer run then."""
        if not super().take():
            return False
        self._board.end(self.deliveries)
        return True
