"""One call of a handler in a thread, which another thread may interrupt."""

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
    """An exception of another thread arrives between any two bytecodes. It must arrive in the handler or not at all.

    The one that takes the ticket has won: the handler that ends, and then no exception is raised any more; or the
    interrupter, and then the handler waits until the exception is there.

    ``give_up``: settles the messages without the handler. ``wake``: ends the queries that the handler waits for, where
    no exception reaches it.
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
        if not self._ticket.take():
            return
        self.interrupted = True
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), ctypes.py_object(HandlerTimeout))
        try:
            self._wake()
        finally:
            # Not before: until then the handler does not end, and no query but its own is cancelled.
            self._sent = True

    def give_up(self) -> None:
        self._give_up()

    def _close(self) -> None:
        if self._ticket.take():
            return
        while not self._sent:
            time.sleep(0.001)
        # If it has not been raised yet, this is where it is.
        time.sleep(0)


def leave_if_forked(process: int) -> None:
    """A handler that forks and returns in the child would make a second worker that settles on our connections."""
    if os.getpid() != process:
        with suppress(OSError):
            os.write(2, b"a handler forked, and its child process came back from the handler: it is ended\n")
        os._exit(os.EX_SOFTWARE)
