"""Make the parts of a worker, and connect them."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator

from django_pgqueue import handlers
from django_pgqueue.delivery import Delivery
from django_pgqueue.worker.call.executor import Execution
from django_pgqueue.worker.call.middleware import Middleware
from django_pgqueue.worker.database import Outage
from django_pgqueue.worker.fetch.listener import Listener
from django_pgqueue.worker.fetch.producer import Producer
from django_pgqueue.worker.hold.board import Board
from django_pgqueue.worker.hold.lease_keeper import LeaseKeeper
from django_pgqueue.worker.link.child_end import Reports, SupervisorInbox, end_within
from django_pgqueue.worker.link.pipe import Link
from django_pgqueue.worker.link.remote_keeper import RemoteKeeper
from django_pgqueue.worker.operate.recycling import Recycling, memory_bytes
from django_pgqueue.worker.operate.registration import Registration, WorkerDescription, running_as_json
from django_pgqueue.worker.operate.shutdown import Shutdown
from django_pgqueue.worker.operate.vitals import Vitals
from django_pgqueue.worker.options import WorkerOptions
from django_pgqueue.worker.role import Companion
from django_pgqueue.worker.run.async_runner import AsyncRunner
from django_pgqueue.worker.run.atomic import Atomic
from django_pgqueue.worker.run.buffer import Buffer
from django_pgqueue.worker.run.deadlines import Deadlines, Run
from django_pgqueue.worker.run.dispatch import Dispatch
from django_pgqueue.worker.run.limits import HandlerLimits
from django_pgqueue.worker.run.perform import Performer
from django_pgqueue.worker.run.runtime import Runtime
from django_pgqueue.worker.run.slots import Slots
from django_pgqueue.worker.served import ServedQueues
from django_pgqueue.worker.settle.completer import Completer
from django_pgqueue.worker.settle.ledger import Ledger

logger = logging.getLogger("django_pgqueue.worker")


class WorkerParts:
    """Make the roles of a worker, and connect them by callbacks; :class:`QueueWorker` starts and stops them.

    The arguments are those of :class:`QueueWorker`.
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
        self.board = board or Board()
        self.ledger = Ledger(options.using, options.name)
        self.shutdown = Shutdown()
        self._vitals = vitals or Vitals()
        self._registration: Registration | None = None
        self._crashes: list[str] = []
        self._outage = Outage(options.using, options.name)
        self._served = ServedQueues(options)
        self._link = link
        self._make_settling()
        self._make_running()
        self._make_fetching()
        self._companions = self._make_companions(companion)

    def _make_settling(self) -> None:
        """Make the roles that hold leases and write outcomes."""
        self._keeper = self._make_keeper()
        self._completer = Completer(
            self.options.using,
            keeper=self._keeper,
            board=self.board,
            ledger=self.ledger,
            outage=self._outage,
            on_settled=self._settled,
            crashed=self._crashed,
        )

    def _make_running(self) -> None:
        """Make the roles that call handlers: threads, event loop, deadlines, and dispatch between them."""
        options, keeper, middleware = self.options, self._keeper, Middleware.configured()
        keep = options.once or options.drain
        limits = self._limits = HandlerLimits(keep=keep, guarded=lambda: self._served.guarded)
        self._deadlines = Deadlines(self._runs, grace=options.grace, crashed=self._crashed)
        runtime = self._make_runtime(middleware)
        buffer = Buffer(options.concurrency, options.batch, limits=limits, wake=self._wake, alike=middleware.alike)
        atomic = Atomic(options, keeper=keeper, board=self.board, ledger=self.ledger, outage=self._outage)
        performer = Performer(atomic, find=middleware.find)
        self._slots = Slots(buffer, performer=performer, runtime=runtime)
        self._loop = AsyncRunner(
            options.async_concurrency, options.batch, limits=limits, wake=self._wake, runtime=runtime
        )
        self._dispatch = Dispatch(
            buffer,
            self._loop,
            limits=limits,
            keep=keep,
            board=self.board,
            keeper=keeper,
            using=options.using,
            put=self._completer.put,
        )

    def _make_fetching(self) -> None:
        """Make the roles that take messages from the database."""
        self._producer = Producer(
            self.options,
            served=self._served,
            dispatch=self._dispatch,
            hold=self._keeper.hold,
            held=self._keeper.__len__,
            done=lambda: self.shutdown.request("no message is ready"),
            outage=self._outage,
            crashed=self._crashed,
        )

    def _make_runtime(self, middleware: Middleware) -> Runtime:
        return Runtime(
            using=self.options.using,
            middleware=middleware,
            timeout=self.options.timeout,
            board=self.board,
            outage=self._outage,
            put=self._put,
            expect=self._deadlines.expect,
            recycle=self._unfit,
            crashed=self._crashed,
        )

    def _make_keeper(self) -> LeaseKeeper[Delivery] | RemoteKeeper:
        if self._link is not None:
            return RemoteKeeper(self.board, on_lost=self._lost, on_cancelled=self._cancelled)
        return LeaseKeeper(
            self.options.using,
            self.options.lease,
            outage=self._outage,
            on_lost=self._lost,
            on_cancelled=self._cancelled,
            crashed=self._crashed,
        )

    def _make_companions(self, companion: Callable[[Callable[[], None]], Companion] | None) -> list[Companion]:
        options, outage, crashed = self.options, self._outage, self._crashed
        link, keeper = self._link, self._keeper
        if link is not None and isinstance(keeper, RemoteKeeper):
            companions = self._supervised(link, keeper)
        else:
            companions = self._alone(companion)
        companions.append(Recycling(options, settled=self.ledger.settled, recycle=self.recycle, crashed=crashed))
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
            companions.append(listener)
            if own:
                self._producer.listen(on_breaker=self._breaker_opened, deaf=listener.need)
        return companions

    def _alone(self, companion: Callable[[Callable[[], None]], Companion] | None) -> list[Companion]:
        options, outage, crashed = self.options, self._outage, self._crashed
        registration = self._registration = Registration(
            options,
            served=self._served,
            describe=lambda: [self.describe()],
            on_paused=lambda names: self._producer.pause(options.name in names),
            outage=outage,
            crashed=crashed,
        )
        companions: list[Companion] = [registration]
        if companion is not None:
            companions.append(companion(self._wake))
        return companions

    def _supervised(self, link: Link, keeper: RemoteKeeper) -> list[Companion]:
        frames: dict[str, Callable[..., None]] = {
            "wake": self._wake,
            "lost": keeper.lost,
            "cancelled": keeper.cancelled,
            "pause": self._producer.pause,
            "stop": self.shutdown.request,
        }
        return [
            SupervisorInbox(link, on=frames, on_gone=self._orphaned, crashed=self._crashed),
            Reports(link, describe=self.describe, outage=self._outage, crashed=self._crashed),
        ]

    def recycle(self, reason: str) -> None:
        """Ask for a new process in place of this one. Without a supervisor this one stops, to be started again."""
        if self._link is not None:
            self._link.send("recycle", reason)
        else:
            self.shutdown.request(f"recycling: {reason}")

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

    def _runs(self) -> Iterator[Run]:
        yield from self._slots.runs()
        yield from self._loop.runs()

    def _unfit(self, reason: str) -> None:
        consequence = "restart it" if self._link is None else "its supervisor replaces it"
        logger.error("this worker cannot go on: %s; %s", reason, consequence, extra={"event": "worker_unfit"})
        if self._link is not None:
            self.recycle(reason)

    def _orphaned(self) -> None:
        self.shutdown.request("the supervisor is gone")
        end_within(self.options.lease)

    def _put(self, executions: list[Execution]) -> None:
        self._limits.failed(executions)
        self._completer.put(executions)

    def _settled(self, executions: list[Execution]) -> None:
        self._dispatch.settled(executions, lambda opened: self._breaker_opened(*opened))
        self._producer.wake()

    def _wake(self) -> None:
        self._producer.wake()

    def _lost(self, lost: list[Delivery]) -> None:
        for delivery in lost:
            waited = self._dispatch.drop(delivery)
            effects = "it had not been started" if waited else "its handler runs on, its outcome will not count"
            self.ledger.lost([delivery], effects=effects)

    def _breaker_opened(self, handler: str, queue: str | None, channel: str | None) -> None:
        """Give back the messages that wait here and not in the database; a failing handler would use up attempts."""

        def waits(delivery: Delivery) -> bool:
            here = channel is None or (delivery.queue, delivery.channel) == (queue, channel)
            return delivery.handler == handler and here

        if waiting := self._dispatch.withdraw(waits):
            self._dispatch.give_back(waiting)
            logger.info(
                "gave %d message(s) of %s back that were not started: its breaker is open", len(waiting), handler,
                extra={"event": "given_back", "worker": self.options.name},
            )  # fmt: skip

    def _cancelled(self, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            self._dispatch.cancel(delivery)

    def _crashed(self, role: str, error: BaseException) -> None:
        self._crashes.append(role)
        logger.critical("%s crashed; the worker stops", role, exc_info=error, extra={"event": "role_crashed"})
        self.shutdown.request(f"{role} crashed")
