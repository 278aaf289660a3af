"""Make the parts of a worker, connect them, and start and stop them in the order in which no outcome is lost."""

from __future__ import annotations

import logging
import math
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from django_pgqueue import handlers
from django_pgqueue.delivery import Delivery
from django_pgqueue.worker import numbers
from django_pgqueue.worker.atomic import Atomic
from django_pgqueue.worker.board import Board
from django_pgqueue.worker.buffer import Buffer
from django_pgqueue.worker.completer import Completer
from django_pgqueue.worker.database import Outage, keep_alive
from django_pgqueue.worker.dispatch import Dispatch
from django_pgqueue.worker.event_loop import AsyncRunner
from django_pgqueue.worker.executor import Execution
from django_pgqueue.worker.lease_keeper import LeaseKeeper
from django_pgqueue.worker.ledger import Ledger
from django_pgqueue.worker.link import Link
from django_pgqueue.worker.listening import Listener
from django_pgqueue.worker.middleware import Middleware
from django_pgqueue.worker.options import WorkerOptions
from django_pgqueue.worker.producer import Producer
from django_pgqueue.worker.registration import Registration, WorkerDescription, running_as_json
from django_pgqueue.worker.role import Companion, Crashed, Role
from django_pgqueue.worker.runtime import Run, Runtime
from django_pgqueue.worker.served import ServedQueues
from django_pgqueue.worker.shutdown import Shutdown
from django_pgqueue.worker.startup import log_start
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
        self._supervisor: SupervisorLink | None = None
        self._vitals = vitals or Vitals()
        self._started_at = time.monotonic()
        # When the main thread looks at the deadlines again.
        self._look_at = math.inf
        # Why the supervisor is to replace this process; empty: it is not.
        self.recycling = ""
        self._crashes: list[str] = []
        self._registration: Registration | None = None
        outage = self._outage = Outage(options.using, options.name)
        self._served = ServedQueues(options)
        self._completer = Completer(
            options.using,
            board=self.board,
            ledger=self.ledger,
            outage=outage,
            on_settled=self._settled,
            crashed=self._crashed,
        )
        self._make_running()
        self._producer = Producer(
            options,
            served=self._served,
            dispatch=self._dispatch,
            hold=self._hold,
            held=self.board.__len__,
            done=lambda: self.shutdown.request("no message is ready"),
            outage=outage,
            crashed=self._crashed,
        )
        self._companions = self._make_companions(companion, link)

    def _make_running(self) -> None:
        """Make the parts that call handlers: threads, event loop, and dispatch between them."""
        options, middleware = self.options, Middleware.configured()
        keep = options.once or options.drain
        unwritten: dict[str, set[int]] = {}

        def buffer(concurrency: int, on_ready: Callable[[], None] = lambda: None) -> Buffer:
            return Buffer(
                concurrency,
                options.batch,
                keep=keep,
                held=unwritten,
                wake=self._wake,
                find=middleware.find,
                alike=middleware.alike,
                on_ready=on_ready,
            )

        threads = buffer(options.concurrency)
        loop = buffer(options.async_concurrency, on_ready=lambda: self._loop.ready())
        self._dispatch = Dispatch(
            threads,
            loop,
            unwritten=unwritten,
            guarded=lambda: self._served.guarded,
            keep=keep,
            board=self.board,
            using=options.using,
            put=self._completer.put,
            cancel=lambda delivery: self._loop.cancel(delivery),
        )
        runtime = Runtime(
            using=options.using,
            timeout=options.timeout,
            board=self.board,
            outage=self._outage,
            put=self._put,
            failed=self._dispatch.failed,
            expect=self._expect,
            recycle=self._unfit,
            crashed=self._crashed,
        )
        atomic = Atomic(options, board=self.board, ledger=self.ledger, outage=self._outage)
        self._threads = Threads(threads, atomic=atomic, runtime=runtime)
        self._loop = AsyncRunner(loop, runtime=runtime)

    def _make_companions(
        self, companion: Callable[[Callable[[], None]], Companion] | None, link: Link | None
    ) -> list[Companion]:
        """Make what runs beside the path of a message; the first one is stopped last."""
        options, outage, crashed = self.options, self._outage, self._crashed
        found: list[Companion] = []
        if link is not None:
            self._supervisor = SupervisorLink(link, self, on=self._frames(), outage=outage, crashed=crashed)
            found.append(self._supervisor)
        else:
            found.append(
                LeaseKeeper(
                    options.using,
                    options.lease,
                    holders=lambda: (self,),
                    outage=outage,
                    on_lost=lambda leases: self._lost([lease.pair for lease in leases]),
                    on_cancelled=lambda leases: self._cancelled([lease.pair for lease in leases]),
                    crashed=crashed,
                )
            )
            self._registration = Registration(
                options,
                served=self._served,
                describe=lambda: [self.describe()],
                on_paused=lambda names: self._producer.pause(options.name in names),
                outage=outage,
                crashed=crashed,
            )
            found.append(self._registration)
            if companion is not None:
                found.append(companion(self._wake))
        if options.listen is not None:
            # Each child listens for itself: a frame from the supervisor would take half a millisecond longer. The
            # session of the producer listens, where it leads to the server itself: that saves more of the way.
            own = options.listen == options.using
            listener = Listener(
                options.listen,
                self._served.serves,
                at_once=not own,
                worker=options.name,
                outage=outage,
                wake=self._producer.hear,
                on_breaker=self._breaker_opened,
                crashed=crashed,
            )
            found.append(listener)
            if own:
                self._producer.listen(on_breaker=self._breaker_opened, deaf=listener.need)
        return found

    def _frames(self) -> dict[str, Callable[..., None]]:
        """Return what to do for each frame of the supervisor."""
        return {
            "wake": self._wake,
            "lost": self._lost,
            "cancelled": self._cancelled,
            "pause": self._producer.pause,
            "stop": self.shutdown.request,
        }

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
            self.shutdown.close()
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
        for run in self._runs():
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
        if self._outage.problem:
            problems.append(f"the database fails: {self._outage.problem}")
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
        if waiting := self._dispatch.close():
            self._give_back(waiting, "")
        # In this order: an execution is collected before its message counts as ended.
        while (running := self._dispatch.running + self._loop.collected) and (left := deadline - time.monotonic()) > 0:
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

    def _runs(self) -> Iterator[Run]:
        yield from self._threads.runs()
        yield from self._loop.runs()

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

    def _hold(self, deliveries: list[Delivery], since: float) -> None:
        if lost := self.board.hold(deliveries, since):
            self._report_lost(lost)

    def _put(self, executions: list[Execution]) -> None:
        self._dispatch.failed(executions)
        self._completer.put(executions)

    def _settled(self, executions: list[Execution]) -> None:
        self._dispatch.settled(executions, lambda opened: self._breaker_opened(*opened))
        self._producer.wake()

    def _wake(self) -> None:
        self._producer.wake()

    def _lost(self, leases: list[tuple[int, int]]) -> None:
        self._report_lost(self.board.lost(leases))

    def _report_lost(self, lost: list[Delivery]) -> None:
        for delivery in lost:
            waited = self._dispatch.drop(delivery)
            effects = "it had not been started" if waited else "its handler runs on, its outcome will not count"
            self.ledger.lost([delivery], effects=effects)

    def _cancelled(self, leases: list[tuple[int, int]]) -> None:
        for delivery in self.board.known(leases):
            self._dispatch.cancel(delivery)

    def _breaker_opened(self, handler: str, queue: str | None, channel: str | None) -> None:
        """Give back the messages that wait here and not in the database; a failing handler would use up attempts."""

        def waits(delivery: Delivery) -> bool:
            here = channel is None or (delivery.queue, delivery.channel) == (queue, channel)
            return delivery.handler == handler and here

        if waiting := self._dispatch.withdraw(waits):
            self._give_back(waiting, f": the breaker of {handler} is open")

    def _give_back(self, waiting: list[Delivery], why: str) -> None:
        self._dispatch.give_back(waiting)
        logger.info(
            "gave %d message(s) back that were not started%s", len(waiting), why,
            extra={"event": "given_back", "worker": self.options.name},
        )  # fmt: skip

    def _crashed(self, role: str, error: BaseException) -> None:
        self._crashes.append(role)
        logger.critical("%s crashed; the worker stops", role, exc_info=error, extra={"event": "role_crashed"})
        self.shutdown.request(f"{role} crashed")


class SupervisorLink:
    """Do what the supervisor's frames say, and report to it every second, in one thread of a child.

    A child without reports counts as silent. ``on``: functions by the first word of a frame; each gets the rest of it.
    ``outage``: has the database's error while it fails. ``crashed``: called with the error if the thread ends by one.
    """

    def __init__(
        self,
        link: Link,
        worker: QueueWorker,
        *,
        on: dict[str, Callable[..., None]],
        outage: Outage,
        crashed: Crashed,
    ) -> None:
        self._link = link
        self._worker = worker
        self._on = on
        self._outage = outage
        self._thread = Role("supervisor-link", self._run, crashed=crashed)

    def start(self) -> None:
        """Send the first report, by which the supervisor knows that the child is ready, and start the thread."""
        self.report()
        self._thread.start()

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
        end_within(self._worker.options.lease)


def end_within(lease: timedelta) -> None:
    """Wait for ORPHAN_LEASE_SHARE of ``lease``, so that handlers can end, and then exit with status 1.

    A child whose supervisor has died calls it. It does not return: the thread of the link has nothing else to do.
    """
    time.sleep(lease.total_seconds() * numbers.ORPHAN_LEASE_SHARE)
    os._exit(1)


def memory_bytes() -> int:
    """Return the resident memory of this process in bytes; its peak if the system does not give the current value."""
    with suppress(OSError):
        return int(STATM.read_text().split()[1]) * resource.getpagesize()
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
