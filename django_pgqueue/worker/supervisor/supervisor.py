"""The supervisor: the parent of the worker processes. No handler runs here, so nothing starves what it does."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from django.db import connections

from django_pgqueue.worker.database import Outage
from django_pgqueue.worker.lease_keeper import LeaseKeeper
from django_pgqueue.worker.listener import Listener
from django_pgqueue.worker.registration import Registration
from django_pgqueue.worker.shutdown import Shutdown
from django_pgqueue.worker.supervisor.deaths import Undertaker, after_death, after_execution
from django_pgqueue.worker.supervisor.link import Held
from django_pgqueue.worker.supervisor.orders import Orders
from django_pgqueue.worker.supervisor.post import Post
from django_pgqueue.worker.supervisor.process import Child, end_of
from django_pgqueue.worker.worker import SETTLE_TIMEOUT, Companion

logger = logging.getLogger("django_pgqueue.worker")

# Seconds.
TICK = 0.5
# A child stops within its shutdown timeout, then writes its last outcomes. For the rest, and a loaded machine:
MARGIN = 5.0
# What a child has to end a message by itself after its deadline, before it is killed.
OVERDUE = 10.0
START_TIMEOUT = 120.0
# Starts in a row that fail before --once and --drain give up.
PATIENCE = 3


class Supervisor:
    """``processes``: how many. ``companion``: makes what runs beside them, given a function that wakes all of them."""

    def __init__(self, orders: Orders, processes: int, *, companion: Callable[[Callable[[], None]], Companion]) -> None:
        options = self.options = orders.options
        self.shutdown = Shutdown(on_second=self._kill_all)
        self._orders = orders
        self._ends = options.once or options.drain
        self._children: list[Child] = []
        self._posts = [Post(spawn=self._spawn, stop=self._stop_child) for _ in range(processes)]
        self._stopping = False
        self._clean = True
        outage = Outage(options.using, options.name)
        using, crashed = options.using, self._crashed
        self._keeper = LeaseKeeper(
            using, options.lease, outage=outage, on_lost=self._lost, on_cancelled=self._cancelled, crashed=crashed
        )
        self._undertaker = Undertaker(using, keeper=self._keeper, outage=outage, on_settled=self._wake, crashed=crashed)
        self._registration = Registration(
            options,
            describe=lambda: [child.describe(options.name) for child in list(self._children)],
            on_paused=self._paused,
            outage=outage,
            crashed=crashed,
        )
        self._companions: list[Companion] = [self._registration, companion(self._wake)]
        if options.listen is not None:
            self._companions.append(
                Listener(
                    options.listen, options.queues, worker=options.name, outage=outage, wake=self._wake, crashed=crashed
                )
            )

    def run(self) -> bool:
        """Work until the end. Returns whether it was clean: see :meth:`Worker.run`, of all children."""
        self.shutdown.install()
        try:
            self._start()
            while not self._done():
                self.shutdown.sleep(TICK)
                self._tick()
            self._close()
        finally:
            self._kill_all()
            self.shutdown.restore()
            self.shutdown.close()
        return self._clean

    def _start(self) -> None:
        logger.info(
            "supervisor %s: %d process(es) for %s",
            self.options.name, len(self._posts), ", ".join(self.options.queues),
            extra={"event": "supervisor_started", "worker": self.options.name},
        )  # fmt: skip
        self._keeper.start()
        self._undertaker.start()
        for companion in self._companions:
            companion.start()
        self._tick()

    def _tick(self) -> None:
        if self.shutdown.reason and not self._stopping:
            self._stop()
        for child in list(self._children):
            self._look_after(child)
        if not self._stopping:
            for post in self._posts:
                others = any(other.successor is not None for other in self._posts if other is not post)
                post.fill(may_replace=not others)

    def _done(self) -> bool:
        return not self._children and (self._stopping or all(post.finished for post in self._posts))

    def _stop(self) -> None:
        self._stopping = True
        logger.info("stopping: %s", self.shutdown.reason, extra={"event": "supervisor_stopping"})
        for child in self._children:
            self._stop_child(child, self.shutdown.reason)

    def _stop_child(self, child: Child, reason: str) -> None:
        child.stop(reason, within=self.options.shutdown_timeout.total_seconds() + SETTLE_TIMEOUT + MARGIN)

    def _close(self) -> None:
        for companion in self._companions:
            companion.stop()
        self._clean &= self._undertaker.stop(SETTLE_TIMEOUT)
        # Last of all: until here, everything that is held stays held.
        self._keeper.stop()
        connections.close_all()
        logger.info("supervisor %s stopped", self.options.name, extra={"event": "supervisor_stopped"})

    def _spawn(self) -> Child:
        child = Child(self._orders, on_frame=self._heard, on_gone=self.shutdown.nudge)
        self._children.append(child)
        self._registration.wake()
        logger.info("process %d started", child.pid, extra={"event": "child_started", **keys(child)})
        return child

    def _look_after(self, child: Child) -> None:
        now = time.monotonic()
        status = child.exit_status()
        if status is not None:
            self._ended(child, status)
            return
        overdue = frozenset(entry.id for entry in child.board.running() if entry.deadline + OVERDUE < now)
        if overdue:
            ids = ", ".join(f"#{message}" for message in sorted(overdue))
            self._condemn(child, f"past the deadline, and it did not end: {ids}", overdue)
        elif now > child.end_by:
            self._condemn(child, f"it did not stop in time ({child.stop_reason})")
        elif not child.ready and now > child.started_at + START_TIMEOUT:
            self._condemn(child, f"it was not ready after {START_TIMEOUT:.0f} s")

    def _condemn(self, child: Child, why: str, guilty: frozenset[int] = frozenset()) -> None:
        if not child.condemned:
            logger.error("killing process %d: %s", child.pid, why, extra={"event": "child_killed", **keys(child)})
            child.condemn(why, guilty)

    def _ended(self, child: Child, status: int) -> None:
        child_running = child.board.running()
        child.bury()
        self._children.remove(child)
        self._registration.wake()
        held = [lease for lease in self._keeper.held() if lease.worker == child.name]
        if child.condemned or child.stop_reason:
            why = child.condemned or child.stop_reason
            inheritance = after_execution(held, child.guilty, worker=child.name, why=why)
        else:
            inheritance = after_death(held, child_running, worker=child.name, end=end_of(status))
        self._undertaker.put(inheritance)
        self._say(child, status, failed=len(inheritance.failed), given_back=len(inheritance.innocent))
        self._replace(child, status)

    def _say(self, child: Child, status: int, **messages: int) -> None:
        extra = {"event": "child_ended", **keys(child), "exit_status": status, **messages}
        if status == 0 or child.stop_reason or child.condemned:
            logger.info("process %d ended: %s", child.pid, end_of(status), extra=extra)
        else:
            logger.error(
                "process %d died: %s. Of its messages, %d are retried and %d given back.",
                child.pid, end_of(status), messages["failed"], messages["given_back"],
                extra={**extra, "event": "child_died"},
            )  # fmt: skip

    def _replace(self, child: Child, status: int) -> None:
        if self._stopping:
            self._clean &= status == 0
            return
        for post in self._posts:
            if child is not post.holder and child is not post.successor:
                continue
            delay = post.lost(child)
            if self._ends and (status == 0 or self.options.once or post.failures > PATIENCE):
                post.finished = True
                self._clean &= status == 0
            elif delay:
                logger.warning("the next process starts in %.1f s", delay, extra={"event": "child_delayed"})

    def _heard(self, child: Child, frame: tuple[Any, ...]) -> None:
        match frame:
            case ("hold", leases, since):
                self._keeper.hold([Held(*lease, child.name) for lease in leases], since)
            case ("release", leases):
                self._keeper.release(Held(*lease, child.name) for lease in leases)
            case ("settling", leases, now):
                self._keeper.settling([Held(*lease, child.name) for lease in leases], now)
            case ("report", report):
                child.report = report
            case ("ready",):
                child.ready = True
                self.shutdown.nudge()
            case ("recycle", reason):
                logger.info(
                    "process %d is to be replaced: %s", child.pid, reason, extra={"event": "recycling", **keys(child)}
                )
                child.recycle_reason = reason
                self.shutdown.nudge()
            case ("refused", reason):
                logger.critical("process %d refuses: %s", child.pid, reason, extra={"event": "child_refused"})
                self._clean = False
                self.shutdown.request("a process refuses to work")

    def _lost(self, leases: list[Held]) -> None:
        self._tell("lost", leases)

    def _cancelled(self, leases: list[Held]) -> None:
        self._tell("cancelled", leases)

    def _tell(self, what: str, leases: list[Held]) -> None:
        for child in list(self._children):
            theirs = [(lease.id, lease.token) for lease in leases if lease.worker == child.name]
            if theirs:
                child.send(what, theirs)

    def _paused(self, names: set[str]) -> None:
        for child in list(self._children):
            child.pause(child.name in names)

    def _wake(self) -> None:
        for child in list(self._children):
            child.wake()

    def _kill_all(self) -> None:
        for child in list(self._children):
            child.kill()

    def _crashed(self, role: str, error: BaseException) -> None:
        self._clean = False
        logger.critical("%s crashed; the worker stops", role, exc_info=error, extra={"event": "role_crashed"})
        self.shutdown.request(f"{role} crashed")


def keys(child: Child) -> dict[str, Any]:
    return {"worker": child.name, "pid": child.pid}
