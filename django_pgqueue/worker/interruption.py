"""Let the main thread interrupt handlers in threads, and decide which of two threads settles their messages."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from django_pgqueue.delivery import Delivery
from django_pgqueue.exceptions import HandlerTimeout
from django_pgqueue.outcomes import Outcome
from django_pgqueue.worker.board import Board


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


class RunTicket(Ticket):
    """Let one thread settle the messages of a run: the one that takes the ticket.

    A run is one call of a handler, or the call of a batch that failed and those of its messages one by one. The slot
    takes the ticket when the handler has ended, or the main thread when it gives the handler up. Until then the board
    shows the messages as running.
    """

    __slots__ = ("_board", "deliveries", "started_at")

    def __init__(self, board: Board, deliveries: list[Delivery], *, started_at: float, timeout: float) -> None:
        """Show the messages on the board. ``started_at``: time.monotonic(). ``timeout``: of one call, in seconds."""
        self._ticket = [None]
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


class ThreadRun:
    """Run one call of a handler in the current thread, and let the main thread interrupt it.

    An exception that another thread sends arrives between any two bytecodes; it must arrive inside of the handler or
    not at all. So both sides compete for a ticket. If the handler ends first, no exception is sent any more. If the
    interrupter takes the ticket, the thread waits at the end of the handler until the exception has arrived.

    ``timeout``: in seconds. ``give_up``: settles the messages without the handler. ``wake``: cancels the queries that
    the handler waits for, because the exception does not reach a thread that waits in C code. ``deadline``:
    time.monotonic() of the timeout. ``interrupted``: whether the exception was sent.
    """

    __slots__ = ("_give_up", "_sent", "_thread", "_ticket", "_timeout", "_wake", "deadline", "interrupted")

    def __init__(self, timeout: float, *, give_up: Callable[[], None], wake: Callable[[], None]) -> None:
        self.deadline = time.monotonic() + timeout
        self.interrupted = False
        self._timeout = timeout
        self._thread = threading.get_ident()
        self._ticket = Ticket()
        self._sent = False
        self._give_up = give_up
        self._wake = wake

    def call(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """Call the function and return its value. Raises HandlerTimeout if it was interrupted, else what it raises.

        An outcome that the handler raises goes through even after an interruption.
        """
        process = os.getpid()
        try:
            try:
                return function(argument)
            finally:
                leave_if_forked(process)
                self._close()
        except Outcome:
            raise
        except BaseException as error:
            if not self.interrupted:
                raise
            text = f"The handler ran longer than its timeout of {timedelta(seconds=self._timeout)}."
            if not isinstance(error, HandlerTimeout):
                raise HandlerTimeout(text) from error
            error.args = (text,)
            raise

    def interrupt(self) -> None:
        """Raise HandlerTimeout in the thread of the handler, unless the handler has ended; from another thread."""
        if not self._ticket.take():
            return
        self.interrupted = True
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), ctypes.py_object(HandlerTimeout))
        # A thread of its own, because the request may wait for a server that does not answer, and the main thread has
        # the deadlines of the others, the signals and the signs of life.
        try:
            threading.Thread(target=self._wake_and_let_go, name="pgqueue-cancel", daemon=True).start()
        except RuntimeError:  # the system gives no more threads: the query goes on until its end
            self._sent = True

    def _wake_and_let_go(self) -> None:
        try:
            self._wake()
        finally:
            # Set last: until then the thread stays in _close(), so no query but the handler's own is cancelled.
            self._sent = True

    def give_up(self) -> None:
        """Settle the messages without the handler, which does not end; from another thread."""
        self._give_up()

    def _close(self) -> None:
        if self._ticket.take():
            return
        while not self._sent:
            time.sleep(0.001)
        # An exception that has not been raised yet is raised here.
        time.sleep(0)


def leave_if_forked(process: int) -> None:
    """End this process at once if it is a fork of the process with the id ``process``.

    A handler that forks and returns in the child would make a second worker, which settles on the same connections.
    """
    if os.getpid() != process:
        with suppress(OSError):
            os.write(2, b"a handler forked, and its child process returned from the handler: it is ended\n")
        os._exit(os.EX_SOFTWARE)
