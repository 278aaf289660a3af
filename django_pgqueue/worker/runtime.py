"""Run the roles of a process as threads, and hold what they share."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from django.db import connections

from django_pgqueue.delivery import label
from django_pgqueue.handlers import Handler
from django_pgqueue.worker.board import Board
from django_pgqueue.worker.database import Outage
from django_pgqueue.worker.executor import Execution, stuck_execution
from django_pgqueue.worker.interruption import RunTicket
from django_pgqueue.worker.ledger import Ledger
from django_pgqueue.worker.options import WorkerOptions
from django_pgqueue.worker.shutdown import Alarm

logger = logging.getLogger("django_pgqueue.worker")

NEVER = float("inf")


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
    def __init__(self, name: str, work: Callable[[], None], *, crashed: Callable[[str, BaseException], None]) -> None:
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


@dataclass(kw_only=True)
class Shared:
    """Hold what the roles of a process share, in a supervisor and in a worker.

    ``crashed``: takes the name of a role and the error that ended it; from any thread. ``outage``: says whether the
    database answers.
    """

    options: WorkerOptions
    crashed: Callable[[str, BaseException], None]

    def __post_init__(self) -> None:
        self.using = self.options.using
        self.outage = Outage(self.using, self.options.name)


@dataclass(kw_only=True)
class Runtime(Shared):
    """Hold what the roles of a worker share; the worker makes one.

    ``board``: shows the leases and what runs. ``ledger``: counts and logs what is settled. The functions may be called
    from any thread. ``put``: takes executions to be settled. ``alarm``: set to end the producer's sleep, because a slot
    may be free or a message ready. ``expect``: takes a deadline (time.monotonic()). ``recycle``: asks for a new
    process, with the reason, because a handler cannot be ended.
    """

    board: Board
    ledger: Ledger
    put: Callable[[list[Execution]], None]
    alarm: Alarm
    expect: Callable[[float], None]
    recycle: Callable[[str], None]

    def give_up(self, ticket: RunTicket, advice: str, extra: dict[str, Any]) -> bool:
        """Settle the messages of a run that does not end, unless it has just ended. Returns whether they are settled.

        ``advice``: the end of the log line. ``extra``: its event.
        """
        if not ticket.take():
            return False
        deliveries = ticket.deliveries
        logger.error(
            "the handler %s did not end after its timeout (%s): the messages are retried, and this process is "
            "replaced. %s", deliveries[0].handler, ", ".join(map(label, deliveries)), advice,
            extra=extra | {"message_id": deliveries[0].id, "queue": deliveries[0].queue},
        )  # fmt: skip
        seconds = (time.monotonic() - ticket.started_at) / len(deliveries)
        self.put([stuck_execution(delivery, seconds) for delivery in deliveries])
        return True

    def timeout_of(self, handler: Handler | None) -> float:
        """Return the timeout of the handler in seconds; infinite if it has none."""
        timeout = handler.timeout if handler is not None and handler.timeout is not None else self.options.timeout
        return NEVER if timeout is None else timeout.total_seconds()
