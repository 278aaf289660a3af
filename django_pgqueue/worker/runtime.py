"""Share options and services between the threads and the event loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from django_pgqueue.handlers import Handler
from django_pgqueue.worker.board import Board
from django_pgqueue.worker.database import Outage
from django_pgqueue.worker.executor import Execution
from django_pgqueue.worker.role import Crashed

NEVER = float("inf")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """Hold what the threads and the event loop share to run handlers; the worker makes one.

    ``using``: alias of the queue's database. ``timeout``: the time limit of handlers that have none; None: no limit.
    ``board``: shows the messages that have begun. ``outage``: says whether the database answers. ``put``: takes
    executions to be settled. ``failed``: takes executions before the next message starts, to hold handlers whose
    breaker they may open; ``put`` does so, too. ``expect``: takes a deadline (time.monotonic()). ``recycle``: asks for
    a new process, with the reason, because a handler cannot be ended. ``crashed``: takes the error that ended a thread.
    """

    using: str
    timeout: timedelta | None
    board: Board
    outage: Outage
    put: Callable[[list[Execution]], None]
    failed: Callable[[list[Execution]], None]
    expect: Callable[[float], None]
    recycle: Callable[[str], None]
    crashed: Crashed

    def timeout_of(self, handler: Handler | None) -> float:
        """Return the timeout of the handler in seconds; infinite if it has none."""
        timeout = handler.timeout if handler is not None and handler.timeout is not None else self.timeout
        return NEVER if timeout is None else timeout.total_seconds()
