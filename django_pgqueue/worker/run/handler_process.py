"""Run handlers with ``process=True`` in processes of their own, while a thread of the worker waits for each."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.db import connections

from django_pgqueue.delivery import Delivery
from django_pgqueue.exceptions import HandlerError, HandlerTimeout, WorkerDied
from django_pgqueue.worker.call.executor import Execution, failed_execution
from django_pgqueue.worker.link.orders import Orders, database_identity
from django_pgqueue.worker.link.pipe import Link
from django_pgqueue.worker.link.spawn import child_environment, describe_exit, interpreter_command
from django_pgqueue.worker.options import WorkerOptions

MODULE = "django_pgqueue.worker.run.handler_child"
# The time for a new process to import the project, and the time between two looks at a requested cancellation.
HANDLER_START_SECONDS = 60.0
CANCELLATION_LOOK_SECONDS = 0.25


class NeverBegun(WorkerDied):
    """The process ended before it began the handler, so the message is not the cause."""


def unportable_outcome(error: Exception) -> HandlerError:
    """Return the error for an outcome that cannot be sent from one process to another; ``error`` says why."""
    return HandlerError(
        f"What the handler returned cannot leave the process of the handler: {type(error).__name__}: {error}",
        hint="Return Complete(result=…) with plain JSON values: no functions, locks, or objects that are not data.",
    )


class HandlerProcesses:
    """Hold a handler process for each thread that needs one; it is started at the first message and used again."""

    def __init__(self, options: WorkerOptions) -> None:
        self._options = options
        self._local = threading.local()

    def run(self, delivery: Delivery, timeout: float) -> Execution:
        """Run the handler of the delivery in the process of this thread, and return its execution.

        ``timeout``: in seconds. Does not raise: a process that is late or dead is ended, and the next message gets a
        new one.
        """
        started = time.monotonic()
        try:
            execution = self._run(delivery, timeout)
        except (HandlerTimeout, WorkerDied, HandlerError, OSError) as error:
            self.close()
            reason = "poison" if isinstance(error, WorkerDied) else "failed"
            return failed_execution(delivery, error, reason=reason, seconds=time.monotonic() - started)
        return replace(execution, delivery=delivery)

    def _run(self, delivery: Delivery, timeout: float) -> Execution:
        try:
            return self._slot().run(delivery, timeout)
        except NeverBegun:
            # An earlier message made the process end, so this one is tried again in a new process.
            self.close()
            return self._slot().run(delivery, timeout)

    def close(self) -> None:
        """End the process of this thread."""
        slot = self._local.__dict__.pop("slot", None)
        if slot is not None:
            slot.end()

    def _slot(self) -> HandlerProcess:
        slot = self._local.__dict__.get("slot")
        if slot is None:
            slot = self._local.slot = HandlerProcess(self._options)
            slot.wait_until_ready()
        return slot


class HandlerProcess:
    """Control one process that runs handlers. It exits when this process ends, because its link is cut then."""

    def __init__(self, options: WorkerOptions) -> None:
        self._link, theirs = Link.pair()
        self._popen = subprocess.Popen(
            [*interpreter_command(), "-m", MODULE, str(theirs)],
            pass_fds=(theirs,),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env=child_environment(),
        )
        os.close(theirs)
        database = database_identity(connections[options.using].settings_dict)
        self._link.send(Orders(options, 1, database, list(sys.path), os.environ.get("PYTHONPATH")))

    def wait_until_ready(self) -> None:
        """Wait until the process has loaded the project. Raises HandlerError if it fails or takes too long."""
        if not self._link.poll(HANDLER_START_SECONDS):
            raise HandlerError(f"The process for the handler was not ready within {HANDLER_START_SECONDS:.0f} s.")
        match self._link.receive():
            case ("ready",):
                return
            case ("refused", reason):
                raise HandlerError(f"The process for the handler refuses to work: {reason}")
        raise HandlerError(f"The process for the handler did not start: {self._end()}.")

    def run(self, delivery: Delivery, timeout: float) -> Execution:
        """Run the handler of the delivery in the process, and return its execution. ``timeout``: in seconds.

        Raises NeverBegun, HandlerTimeout or WorkerDied, after which the process cannot run another message, and
        HandlerError for an outcome that cannot be read here.
        """
        deadline = time.monotonic() + timeout
        self._link.send("run", delivery)
        if self._answer(delivery, deadline, timeout) is None:
            raise NeverBegun(f"The process of the handler ended before it ran: {self._end()}.")
        frame = self._answer(delivery, deadline, timeout)
        if frame is None:
            raise WorkerDied(f"The process of the handler ended while it ran: {self._end()}.")
        try:
            execution: Execution = pickle.loads(frame[1])
        except Exception as error:
            raise unportable_outcome(error) from error
        return execution

    def _answer(self, delivery: Delivery, deadline: float, timeout: float) -> tuple[Any, ...] | None:
        """Wait for the next frame and return it; None when the process has ended. Raises HandlerTimeout.

        A requested cancellation is sent to the process meanwhile.
        """
        cancellation_sent = False
        while not self._link.poll(min(CANCELLATION_LOOK_SECONDS, max(0.0, deadline - time.monotonic()))):
            if time.monotonic() >= deadline:
                raise HandlerTimeout(
                    f"The handler ran longer than its timeout of {timedelta(seconds=timeout)}: its process was killed."
                )
            if delivery.cancelled and not cancellation_sent:
                cancellation_sent = self._link.send("cancelled")
        return self._link.receive()

    def end(self) -> None:
        """Kill the process and all processes that its handlers have started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()
        self._link.close()

    def _end(self) -> str:
        """Return in words how the process ended by itself."""
        try:
            return describe_exit(self._popen.wait(5))
        except subprocess.TimeoutExpired:
            return "it closed its link"
