"""The ticket of a run: one call of a handler for its messages, or a batch and its messages one by one."""

from __future__ import annotations

from django_pgqueue.delivery import Delivery
from django_pgqueue.worker.call.ticket import Ticket
from django_pgqueue.worker.hold.board import Board


class RunTicket(Ticket):
    """Decides which thread settles the messages: the one that takes the ticket. It is the slot when the handler has
    ended, or the thread of the deadlines when it gives the handler up.

    The messages stand on the board as running until the ticket is taken.
    """

    __slots__ = ("_board", "deliveries", "started_at")

    def __init__(self, board: Board, deliveries: list[Delivery], *, started_at: float, timeout: float) -> None:
        """``started_at``: time.monotonic(). ``timeout``: of one call, in seconds."""
        super().__init__()
        self.deliveries = deliveries
        self.started_at = started_at
        self._board = board
        # A batch that fails is handled again, one by one.
        calls = 1 if len(deliveries) == 1 else 1 + len(deliveries)
        board.begin(deliveries, started_at + calls * timeout)

    def take(self) -> bool:
        """Show that the messages do not run any more. Returns whether the caller has the last word on them."""
        if not super().take():
            return False
        self._board.end(self.deliveries)
        return True
