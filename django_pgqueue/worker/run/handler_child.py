"""Run handlers with ``process=True`` in a process: ``python -m django_pgqueue.worker.run.handler_child LINK``.

The module imports nothing of Django before the orders of the worker name the path of the modules.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import signal
import sys
import threading
from dataclasses import replace
from queue import SimpleQueue
from typing import TYPE_CHECKING

from django_pgqueue.worker.link.pipe import Link
from django_pgqueue.worker.link.prepare import prepare_process

if TYPE_CHECKING:
    from django_pgqueue.delivery import Delivery
    from django_pgqueue.worker.call.executor import Execution
    from django_pgqueue.worker.call.middleware import Middleware


class DeliveryInbox:
    """Read the frames of the worker in a thread: deliveries to run, and requests to cancel the present one.

    When the link is cut, the worker has ended, and this process exits at once, because its answer could not arrive.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._deliveries: SimpleQueue[Delivery] = SimpleQueue()
        self._current: Delivery | None = None
        threading.Thread(target=self._read, name="pgqueue-inbox", daemon=True).start()

    def get(self) -> Delivery:
        """Wait for the next delivery and return it."""
        return self._deliveries.get()

    def _read(self) -> None:
        while (frame := self._link.receive()) is not None:
            match frame:
                case ("run", delivery):
                    self._current = delivery
                    self._deliveries.put(delivery)
                case ("cancelled",) if self._current is not None:
                    self._current.cancellation.request()
        os._exit(0)


def main(link: Link) -> None:
    """Run the deliveries that come through ``link``, one after the other, until the worker ends."""
    faulthandler.enable()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    orders = link.receive()
    if orders is None or not prepare_process(orders[0], link):
        return
    from django_pgqueue.worker.call.middleware import Middleware

    middleware = Middleware.configured()
    inbox = DeliveryInbox(link)
    link.send("ready")
    while True:
        serve_delivery(link, inbox.get(), middleware)


def serve_delivery(link: Link, delivery: Delivery, middleware: Middleware) -> None:
    """Run one delivery, send its execution, and clean up the connections."""
    from django_pgqueue.worker.call.executor import failed_executions
    from django_pgqueue.worker.call.thread_run import leave_if_forked
    from django_pgqueue.worker.database import end_transactions, opened_connections, tidy_connections

    process = os.getpid()
    link.send("begun")
    execution = run_delivery(delivery, middleware)
    leave_if_forked(process)
    used = opened_connections()
    if (lost := end_transactions(used, [delivery])) is not None:
        [execution] = failed_executions([execution], lost)
    link.send("done", pack_execution(execution))
    tidy_connections(used)


def run_delivery(delivery: Delivery, middleware: Middleware) -> Execution:
    """Run the handler of the delivery inside of the middleware. Never raises."""
    from django_pgqueue.worker.call.executor import execute, missing_handler

    handler = middleware.find(delivery.handler)
    return (
        missing_handler(delivery) if handler is None else execute(handler.function, delivery, handler.backoff_function)
    )


def pack_execution(execution: Execution) -> bytes:
    """Return the execution as bytes; if it cannot be pickled, a failure that says so.

    The delivery is left out, because the handler may have put any object into its payload, and the worker has it.
    """
    from django_pgqueue.worker.call.executor import failed_execution
    from django_pgqueue.worker.run.handler_process import unportable_outcome

    try:
        return pickle.dumps(replace(execution, delivery=None))  # type: ignore[arg-type]  # without the delivery, see above
    except Exception as error:
        failure = failed_execution(execution.delivery, unportable_outcome(error), seconds=execution.seconds)
        return pickle.dumps(replace(failure, delivery=None))  # type: ignore[arg-type]  # without the delivery, see above


if __name__ == "__main__":
    main(Link(int(sys.argv[1])))
