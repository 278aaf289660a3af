"""Choose how a thread runs a handler: plain or in a transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django_pgqueue.delivery import Delivery
from django_pgqueue.handlers import Handler
from django_pgqueue.worker.call.executor import Execution, missing_handler, run_function
from django_pgqueue.worker.run.atomic import Atomic

# Takes a handler and returns its function with a time limit.
Limited = Callable[[Handler], Callable[[Any], Any]]


class Performer:
    """Run the messages of the threads.

    ``atomic``: for handlers with ``atomic``. ``find``: returns the handler of a name with its function inside of the
    middleware, or None.
    """

    def __init__(self, atomic: Atomic, *, find: Callable[[str], Handler | None]) -> None:
        self._atomic = atomic
        self._find = find

    def perform(self, deliveries: list[Delivery], limited: Limited) -> list[Execution]:
        """Run the handler of the deliveries, which are one message or a batch.

        ``limited``: returns the handler's function with its time limit. If a batch fails, its messages are run one by
        one. Returns the executions that are not settled yet.
        """
        handler = self._find(deliveries[0].handler)
        if handler is None:
            return [missing_handler(delivery) for delivery in deliveries]
        function, batch = limited(handler), handler.batch is not None

        def work(deliveries: list[Delivery]) -> list[Execution]:
            return run_function(function, deliveries, batch=batch, backoff=handler.backoff_function)

        if handler.atomic:
            return self._atomic.run(work, deliveries)
        executions = work(deliveries)
        if len(deliveries) > 1 and any(execution.raised for execution in executions):
            return [execution for delivery in deliveries for execution in work([delivery])]
        return executions
