"""Make the parts of a worker, connect them, and start and stop them in the order in which no outcome is lost."""

from __future__ import annotations

import logging
import math
import os
import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from django_pgqueue import handlers
from django_pgqueue.conf import settings
from django_pgqueue.worker import numbers
from django_pgqueue.worker.board import Board
from django_pgqueue.worker.completer import Completer
from django_pgqueue.worker.database import keep_alive
from django_pgqueue.worker.dispatch import Dispatch
from django_pgqueue.worker.event_loop import AsyncRunner
from django_pgqueue.worker.executor import Execution
from django_pgqueue.worker.lease_keeper import LeaseKeeper
from django_pgqueue.worker.ledger import Ledger
from django_pgqueue.worker.link import Link
from django_pgqueue.worker.listening import Ear, Listener
from django_pgqueue.worker.looks import ServedQueues
from django_pgqueue.worker.middleware import Middleware
from django_pgqueue.worker.options import WorkerOptions
from django_pgqueue.worker.producer import Producer
from django_pgqueue.worker.registration import Registration, WorkerDescription, running_as_json
from django_pgqueue.worker.runtime import Companion, Role, Run, Runtime, Shared
from django_pgqueue.worker.shutdown import Alarm, Shutdown
from django_pgqueue.worker.threads import Threads
from django_pgqueue.worker.vitals import Health, Vitals

logger = logging.getLogger("django_pgqueue.worker")

STATM = Path("/proc/self/statm")


class QueueWorker:
    """Serve queues until a stop is requested; with ``once`` or ``drain``, until nothing is left to do.

    A child process of a supervisor runs one, and so do ``--processes 0`` and tests. Its main thread, which calls
    :meth:`run`, handles signals, interrupts handlers that are past their deadline, and watches the limits of this
    process. ``options``: what it serves. ``companion``: makes the service that runs beside it (the maintenance loop),
    given a function that wakes the producer. ``link``, ``board``: connect it to its supervisor; without a supervisor it
    extends its leases and writes its row itself. ``vitals``: reports the health to probes.
    """

    def __init__(
        self,
        options: WorkerOptions,
        *,
        companion: Callable[[Callable[[], None]], Companion] | None = None,
        link: Link | None = None,
        board: Board | None = None,
        vitals: Vitals | None = None,
    ) -> None:
        self.options = options
        self.name = options.name
        self.board = Board() if board is None else board
        self.ledger = Ledger(options.using, options.name)
        self.shutdown = Shutdown()
        # Why the supervisor is to replace this process; empty: it is not.
        self.recycling = ""
        self._vitals = vitals or Vitals()
        self._started_at = time.monotonic()
        # When the main thread looks at the deadlines again.
        self._look_at = math.inf
        self._crashes: list[str] = []
        self._served = ServedQueues(options)
        runtime = self._runtime = Runtime(
            options=options,
            board=self.board,
            ledger=self.ledger,
            put=self._put,
            alarm=Alarm(),
            expect=self._expect,
            recycle=self._unfit,
            crashed=self._crashed,
        )
        self._completer = Completer(runtime, on_settled=self._settled)
        self._dispatch = Dispatch(
            runtime, Middleware.configured(), guarded=lambda: self._served.guarded, put=self._completer.put
        )
        self._threads = Threads(self._dispatch.threads, runtime)
        self._loop = AsyncRunner(self._dispatch.loop, runtime)
        self._producer = Producer(
            runtime,
            served=self._served,
            dispatch=self._dispatch,
            done=lambda: self.shutdown.request("no message is ready"),
        )
        # What runs beside the path of a message; the first one is stopped last.
        self._companions: list[Companion] = []
        self._supervisor: SupervisorLink | None = None
        self._registration: Registration | None = None
        if link is not None:
            on: dict[str, Callable[..., None]] = {
                "wake": runtime.alarm.set,
                "lost": self._dispatch.lost,
                "cancelled": self._cancelled,
                "pause": self._producer.pause,
                "stop": self.shutdown.request,
            }
            self._supervisor = SupervisorLink(runtime, link, self, on)
            self._companions.append(self._supervisor)
        else:
            self._stand_alone(companion)
        if options.listen is not None:
            self._companions.append(self._listen(options.listen))

    def _stand_alone(self, companion: Callable[[Callable[[], None]], Companion] | None) -> None:
        """Make what a supervisor would do otherwise: extend the leases, write the row, and maintenance."""
        keeper = LeaseKeeper(
            self._runtime,
            holders=lambda: (self,),
            on_lost=lambda leases: self._dispatch.lost([lease.pair for lease in leases]),
            on_cancelled=lambda leases: self._cancelled([lease.pair for lease in leases]),
        )
        self._registration = Registration(
            self._runtime,
            served=self._served,
            describe=lambda: [self.describe()],
            on_paused=lambda names: self._producer.pause(self.name in names),
        )
        self._companions += [keeper, self._registration]
        if companion is not None:
            self._companions.append(companion(self._runtime.alarm.set))

    def _listen(self, alias: str) -> Listener:
        """Let the producer's session listen, if it is to the same database; else a listener has one of its own.

        Each child listens for itself: a frame from the supervisor would take half a millisecond longer.
        """
        serves, on_breaker, own = self._served.serves, self._dispatch.breaker_opened, alias == self.options.using
        ear = Ear(serves=serves, hear=self._producer.hear, on_breaker=on_breaker)
        listener = Listener(self._runtime, alias, ear, at_once=not own)
        if own:
            self._producer.listen(on_breaker=on_breaker, deaf=listener.need)
        return listener

    def run(self) -> bool:
        """Run until a stop is requested.

        Returns whether everything was clean: all handlers have ended, all outcomes are written, and no role crashed.
        """
        self.shutdown.install()
        keep_alive()
        try:
            self._start()
            self._vitals.start(self.health)
            while not self.shutdown.reason:
                self.shutdown.sleep(self.run_once())
            self._vitals.stopping()
            clean = self._stop(self.shutdown.reason)
        finally:
            self._vitals.stop()
            self.shutdown.restore()
        return clean and not self._crashes

    def run_once(self) -> float:
        """Interrupt overdue handlers, give up those that do not end, and watch the limits of this process.

        There are three stages. At its deadline a handler is interrupted. If it has not ended after the grace, its
        message is settled without it, and the worker asks to be replaced. If the process cannot even do that, its
        supervisor kills it. Returns the seconds until the next look.
        """
        now, grace = time.monotonic(), self.options.grace.total_seconds()
        # A handler that starts during the look with an earlier deadline ends the sleep after it.
        following = self._look_at = now + numbers.LOOK_SECONDS
        runs: list[Run] = [*self._threads.runs(), *self._loop.runs()]
        for run in runs:
            if run.deadline + grace <= now:
                run.give_up()
            elif run.deadline <= now:
                if not run.interrupted:
                    run.interrupt()
                    self._vitals.beat()
                following = min(following, run.deadline + grace)
            else:
                following = min(following, run.deadline)
        if not self.recycling and (reason := self._reason_to_recycle()):
            self.recycle(reason)
        self._vitals.beat()
        self._look_at = following
        return max(0.0, following - time.monotonic())

    def stop(self) -> None:
        """Ask the worker to stop, and return at once; from any thread."""
        self.shutdown.request("asked to stop")

    def recycle(self, reason: str) -> None:
        """Ask for a new process in place of this one. Without a supervisor this one stops, to be started again."""
        self.recycling = reason
        if self._supervisor is None:
            self.shutdown.request(f"recycling: {reason}")
        else:
            self._supervisor.report()

    def describe(self) -> WorkerDescription:
        """Return the columns of the worker's row."""
        return WorkerDescription(
            name=self.options.name,
            pid=os.getpid(),
            state="stopping" if self.shutdown.reason else "running",
            running=running_as_json(self.board.running()),
            totals=self.ledger.totals(),
            memory_bytes=memory_bytes(),
            handlers=handlers.names(),
        )

    def health(self) -> Health:
        """Return the health of a worker that runs without a supervisor."""
        silence = 0.0 if self._registration is None else time.monotonic() - self._registration.written_at
        problems = ["the database does not answer"] if silence > numbers.LONGEST_SILENCE_SECONDS else []
        if self._runtime.outage.problem:
            problems.append(f"the database fails: {self._runtime.outage.problem}")
        oldest = min((entry.ended_at for entry in self.board.begun() if entry.ended_at), default=math.inf)
        if (late := time.monotonic() - oldest) > max(
            numbers.LONGEST_SILENCE_SECONDS, self.options.lease.total_seconds()
        ):
            problems.append(f"outcomes are not written down for {late:.0f} s")
        about = self.describe()
        worker = {"name": about.name, "pid": about.pid, "state": about.state, "running": len(about.running)}
        return Health(about.state, problems, [worker])

    def _start(self) -> None:
        log_start(self.options)
        self._completer.start()
        self._threads.start()
        self._loop.start()
        for companion in self._companions:
            companion.start()
        self._producer.start()

    def _stop(self, reason: str) -> bool:
        extra = {"event": "worker_stopping", "worker": self.options.name}
        logger.info("worker %s is stopping: %s", self.options.name, reason, extra=extra)
        deadline = time.monotonic() + self.options.shutdown_timeout.total_seconds()
        self._producer.stop()
        self._dispatch.close()
        while (running := self._dispatch.running) and (left := deadline - time.monotonic()) > 0:
            self.shutdown.sleep(min(numbers.IDLE_LOOK_SECONDS, left, self.run_once()))
        if running:
            logger.error(
                "%d handler(s) did not end within %s; %s", running, self.options.shutdown_timeout,
                "their leases will expire" if self._supervisor is None else "the supervisor gives their messages back",
                extra=extra,
            )  # fmt: skip
        written = self._completer.stop(max(numbers.SHUTDOWN_SETTLE_SECONDS, deadline - time.monotonic()))
        self._threads.join(0 if running else 5)
        self._loop.stop(0 if running else 5)
        # The lease keeper is stopped last, so that all leases are extended until here.
        for companion in reversed(self._companions):
            companion.stop()
        self.ledger.close()
        return written and not running

    def _expect(self, deadline: float) -> None:
        """Make sure that the main thread looks at ``deadline`` (time.monotonic()) at the latest; from any thread."""
        if deadline < self._look_at:
            self.shutdown.nudge()

    def _reason_to_recycle(self) -> str:
        """Return why this process is to be replaced: it has reached one of its limits. Empty: it is not."""
        limits = self.options
        if limits.max_messages is not None and (settled := self.ledger.settled()) >= limits.max_messages:
            return f"{settled} messages are done, --max-messages is {limits.max_messages}"
        if limits.max_age is not None and time.monotonic() - self._started_at >= limits.max_age.total_seconds():
            return f"it is older than --max-age, {limits.max_age}"
        if limits.max_memory is not None and (memory := memory_bytes()) >= limits.max_memory:
            return f"it occupies {memory >> 20} MB, --max-memory is {limits.max_memory >> 20}"
        return ""

    def _unfit(self, reason: str) -> None:
        consequence = "restart it" if self._supervisor is None else "its supervisor replaces it"
        logger.error("this worker cannot go on: %s; %s", reason, consequence, extra={"event": "worker_unfit"})
        if self._supervisor is not None:
            self.recycle(reason)

    def _put(self, executions: list[Execution]) -> None:
        self._dispatch.failed(executions)
        self._completer.put(executions)

    def _settled(self, executions: list[Execution]) -> None:
        self._dispatch.settled(executions)
        self._runtime.alarm.set()

    def _cancelled(self, leases: list[tuple[int, int]]) -> None:
        for delivery in self._dispatch.cancelled(leases):
            delivery.cancellation.request()
            self._loop.cancel(delivery)

    def _crashed(self, role: str, error: BaseException) -> None:
        self._crashes.append(role)
        logger.critical("%s crashed; the worker stops", role, exc_info=error, extra={"event": "role_crashed"})
        self.shutdown.request(f"{role} crashed")


class SupervisorLink(Role):
    """Do what the supervisor's frames say, and report to it every second, in one thread of a child.

    A child without reports counts as silent. ``on``: functions by the first word of a frame; each gets the rest of it.
    """

    def __init__(self, shared: Shared, link: Link, worker: QueueWorker, on: dict[str, Callable[..., None]]) -> None:
        super().__init__("supervisor-link", self._run, crashed=shared.crashed)
        self._link = link
        self._worker = worker
        self._on = on
        self._outage = shared.outage

    def start(self) -> None:
        """Send the first report, by which the supervisor knows that the child is ready, and start the thread."""
        self.report()
        super().start()

    def stop(self) -> None:
        """Do nothing: the thread works until the process ends."""

    def report(self) -> None:
        """Report the state of the worker, and why it is to be replaced; later, if the link has no room now."""
        # A report that had to wait would keep its thread from the frames of the supervisor.
        if self._link.has_room():
            problem, misfit = self._outage.problem, self._outage.misfit
            self._link.send("report", self._worker.describe(), problem, misfit, self._worker.recycling)

    def _run(self) -> None:
        due = time.monotonic() + numbers.REPORT_SECONDS
        while True:
            if self._link.poll(max(0.0, due - time.monotonic())):
                if (frame := self._link.receive()) is None:
                    break
                what, *rest = frame
                self._on[what](*rest)
            if time.monotonic() >= due:
                self.report()
                due = time.monotonic() + numbers.REPORT_SECONDS
        self._worker.shutdown.request("the supervisor is gone")
        # Handlers may end meanwhile. Nobody extends the leases, and another worker must not get one before this ends.
        time.sleep(self._worker.options.lease.total_seconds() * numbers.ORPHAN_LEASE_SHARE)
        os._exit(1)


def memory_bytes() -> int:
    """Return the resident memory of this process in bytes; its peak if the system does not give the current value."""
    with suppress(OSError):
        return int(STATM.read_text().split()[1]) * resource.getpagesize()
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def log_start(options: WorkerOptions) -> None:
    """Log the queues and options of a worker that starts, and its handlers; warn if there are none."""
    names = handlers.names()
    logger.info(
        "worker %s serves %s: concurrency %d, batch %d, lease %g s, %s",
        options.name, options.served, options.concurrency, options.batch, options.lease.total_seconds(),
        "LISTEN" if options.listen is not None else f"polling every {options.poll_interval.total_seconds():g} s",
        extra={"event": "worker_started", "worker": options.name, "queue": ",".join(options.queues)},
    )  # fmt: skip
    if names:
        more = len(names) - numbers.MOST_HANDLER_NAMES
        shown = ", ".join(names[: numbers.MOST_HANDLER_NAMES]) + (f" and {more} more" if more > 0 else "")
        extra = {"event": "handlers_found", "worker": options.name}
        logger.info("%d handler(s): %s", len(names), shown, extra=extra)
    else:
        logger.warning(
            "no handler is registered: messages wait up to %s for a worker that has theirs, and then become dead "
            "letters. Put functions with @handler into handlers.py of an installed app.",
            settings.UNKNOWN_HANDLER_GRACE, extra={"event": "no_handlers", "worker": options.name},
        )  # fmt: skip
