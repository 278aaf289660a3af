"""Run the roles of a process as threads, and hold what they share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from django.db import connections

from django_pgqueue.handlers import Handler
from django_pgqueue.worker.board import Board
from django_pgqueue.worker.database import Outage
from django_pgqueue.worker.executor import Execution
from django_pgqueue.worker.ledger import Ledger
from django_pgqueue.worker.options import WorkerOptions

NEVER = float("inf")
# Takes the name of a role and the error that ended it.
Crashed = Callable[[str, BaseException], None]


class Companion(Protocol):
    """Describe a service that runs beside a worker for as long as the worker does, such as the maintenance loop."""

    def start(self) -> None:
        """Start the service, and return at once."""

    def stop(self) -> None:
        """End the service, and wait for it for a few seconds."""


class Role(threading.Thread):
    """Run ``work`` in a daemon thread called ``pgqueue-<name>``, and close the thread's connections at the end.

    ``crashed``: called with the thread's name and the error, if ``work`` raises.
    """

    # A daemon, because the process must be able to end while a role hangs.
    def __init__(self, name: str, work: Callable[[], None], *, crashed: Crashed) -> None:
        super().__init__(name=f"pgqueue-{name}", daemon=True)
        self._work = work
        self._crashed = crashed

    def run(self) -> None:
        """Run ``work``; the thread calls this."""
        try:
            self._work()
        except BaseException as error:  # a worker cannot do its work without this role, whatever the error is
            self._crashed(self.name, error)
        finally:
            connections.close_all()


class Run(Protocol):
    """Describe one call of a handler.

    ``deadline``: time.monotonic() at which it is interrupted. ``interrupted``: whether it was.
    """

    deadline: float
    interrupted: bool

    def interrupt(self) -> None:
        """Raise HandlerTimeout in the handler, or cancel its task if it is async. Does nothing if it has just ended."""

    def give_up(self) -> None:
        """Settle the messages without the handler. Does nothing if it has just ended."""


@dataclass(slots=True, kw_only=True)
class Runtime:
    """Hold what the roles of a worker share; the worker makes one.

    ``board``: shows the leases and what runs. ``ledger``: counts and logs what is settled. ``outage``: says whether the
    database answers. The functions may be called from any thread. ``put``: takes executions to be settled. ``wake``:
    ends the producer's sleep, because a slot may be free or a message ready. ``expect``: takes a deadline
    (time.monotonic()). ``recycle``: asks for a new process, with the reason, because a handler cannot be ended.
    ``crashed``: takes the error that ended a thread.
    """

    options: WorkerOptions
    board: Board
    ledger: Ledger
    outage: Outage
    put: Callable[[list[Execution]], None]
    wake: Callable[[], None]
    expect: Callable[[float], None]
    recycle: Callable[[str], None]
    crashed: Crashed

    def timeout_of(self, handler: Handler | None) -> float:
        """Return the timeout of the handler in seconds; infinite if it has none."""
        timeout = handler.timeout if handler is not None and handler.timeout is not None else self.options.timeout
        return NEVER if timeout is None else timeout.total_seconds()
