"""Share options and services between the runners of handlers: threads and event loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from django_pgqueue.handlers import Handler
from django_pgqueue.worker.call.executor import Execution
from django_pgqueue.worker.call.middleware import Middleware
from django_pgqueue.worker.database import Outage
from django_pgqueue.worker.hold.board import Board
from django_pgqueue.worker.role import Crashed
from django_pgqueue.worker.run.deadlines import NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """``using``: alias of the queue's database. ``timeout``: of handlers that have none of their own. ``middleware``
    knows the handlers as they are to be run.

    ``board`` shows what has begun. ``put`` takes outcomes. ``expect`` takes deadlines. ``recycle``
    is asked, with the reason, to replace this worker soon: something cannot be ended.
    """

    using: str
    middleware: Middleware
    timeout: timedelta | None
    board: Board
    outage: Outage
    put: Callable[[list[Execution]], None]
    expect: Callable[[float], None]
    recycle: Callable[[str], None]
    crashed: Crashed

    def timeout_of(self, handler: Handler | None) -> float:
        """Return the timeout of the handler in seconds; infinite if it has none."""
        timeout = handler.timeout if handler is not None and handler.timeout is not None else self.timeout
        return NEVER if timeout is None else timeout.total_seconds()
