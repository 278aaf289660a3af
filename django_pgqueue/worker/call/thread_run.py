"""Call a handler in a thread so that another thread can interrupt it."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from django_pgqueue.exceptions import HandlerTimeout
from django_pgqueue.outcomes import Outcome
from django_pgqueue.worker.call.ticket import Ticket


class ThreadRun:
    """Run one call of a handler in the current thread, and let the thread of the deadlines interrupt it.

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
