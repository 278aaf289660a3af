"""Keep the number of worker processes, from their start to their end."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import Any

from django_pgqueue.worker import numbers
from django_pgqueue.worker.board import Begun
from django_pgqueue.worker.process import Child, describe_exit
from django_pgqueue.worker.startup import Orders
from django_pgqueue.worker.watch import find_verdict

logger = logging.getLogger("django_pgqueue.worker")


class ProcessSlot:
    """Hold the child of one place, and its successor while it is replaced.

    ``holder``: the child that works. ``successor``: a new child that is starting; the holder works on until it is
    ready, so a start that fails, because new code does not load, stops nothing. ``spawn``: starts a child, or returns
    None. ``stop``: asks a child to end, with the reason. ``finished``: with --once and --drain, its work is done.
    """

    def __init__(self, *, spawn: Callable[[], Child | None], stop: Callable[[Child, str], None]) -> None:
        self.holder: Child | None = None
        self.successor: Child | None = None
        self.finished = False
        self._spawn = spawn
        self._stop = stop
        # Early deaths in a row, those of them that began no message, and when the next start is due.
        self.failures = self.failed_starts = 0
        self._start_at = 0.0

    @property
    def ready(self) -> bool:
        """Return whether the holder is ready."""
        return self.holder is not None and self.holder.ready

    @property
    def changing(self) -> bool:
        """Return whether the holder is to be replaced."""
        return self.successor is not None or (self.holder is not None and bool(self.holder.recycle_reason))

    def has(self, child: Child) -> bool:
        """Return whether the child is the holder or the successor."""
        return child is self.holder or child is self.successor

    def fill(self, *, may_replace: bool) -> None:
        """Start the holder if it is missing and due, or its successor, or let a ready successor take over.

        ``may_replace``: no other slot is replacing its holder.
        """
        if self.finished:
            return
        due = time.monotonic() >= self._start_at
        if self.holder is None:
            self.holder, self.successor = self.successor, None
        if self.holder is None:
            if due:
                self.holder = self._start()
        elif self.successor is not None:
            if self.successor.ready:
                self._stop(self.holder, self.holder.recycle_reason)
                self.holder, self.successor = self.successor, None
        elif self.holder.recycle_reason and due and may_replace:
            self.successor = self._start()

    def vacate(self, child: Child, *, worked: bool = False) -> float:
        """Record that the child has ended, for any reason. Returns the seconds until the next one may start.

        ``worked``: it had begun messages, so that one of them may be the cause, and not its start.
        """
        if child is self.holder:
            self.holder = None
        else:
            self.successor = None
        return self._delay(time.monotonic() - child.started_at, was_ready=child.ready, worked=worked)

    def replace(self, reason: str) -> None:
        """Have the holder replaced after a change, and forget failed starts, which may succeed now."""
        self.failures = self.failed_starts = 0
        self._start_at = 0.0
        if self.successor is not None:
            # The successor may have loaded the code before the change. If it is ready, it may run messages already.
            self._stop(self.successor, reason)
            if not self.successor.ready:
                self.successor.kill_now()
            self.successor = None
        if self.holder is not None:
            self.holder.recycle_reason = reason

    def _start(self) -> Child | None:
        child = self._spawn()
        if child is None:
            self._delay(0.0, was_ready=False, worked=False)
        return child

    def _delay(self, ran_seconds: float, *, was_ready: bool, worked: bool) -> float:
        """Record that a child has ended after ``ran_seconds``, and return the seconds until the next start.

        The first death of a child that was ready has no delay; then the delay doubles, with jitter: processes that die
        of one cause do not all start again at the same moment.
        """
        well = was_ready and ran_seconds > numbers.WELL_SECONDS
        self.failures = 1 if well else self.failures + 1
        self.failed_starts = 0 if well or worked else self.failed_starts + 1
        longest = numbers.LONGEST_WORK_DELAY_SECONDS if was_ready else numbers.LONGEST_START_DELAY_SECONDS
        delay = min(longest, numbers.FIRST_DELAY_SECONDS * float(2 ** min(self.failures - 1, 10))) * random.uniform(
            0.8, 1.0
        )
        if was_ready and self.failures == 1:
            delay = 0.0
        self._start_at = time.monotonic() + delay
        return delay


class ProcessPool:
    """Hold the children of a supervisor, and start, watch, stop and replace them.

    ``orders``: those of each child. ``processes``: the number of children. ``on_frame``: called with a child and each
    frame that it sends. ``on_end``: called with a child that has ended, its exit status, and the messages that it had
    begun. ``nudge``: wakes the supervisor, because a child has ended. ``clean``: whether all children that were to end
    had the exit status 0.
    """

    def __init__(
        self,
        orders: Orders,
        processes: int,
        *,
        on_frame: Callable[[Child, tuple[Any, ...]], None],
        on_end: Callable[[Child, int, list[Begun]], None],
        nudge: Callable[[], None],
    ) -> None:
        self._orders = orders
        self._options = orders.options
        self._on_frame = on_frame
        self._on_end = on_end
        self._nudge = nudge
        self._children: list[Child] = []
        self._slots = [ProcessSlot(spawn=self._spawn, stop=self._stop) for _ in range(processes)]
        self.stopping = False
        self.clean = True

    @property
    def children(self) -> list[Child]:
        """Return a copy of the children, for other threads."""
        return list(self._children)

    @property
    def size(self) -> int:
        """Return the number of processes that the pool keeps."""
        return len(self._slots)

    @property
    def ready_count(self) -> int:
        """Return the number of children that are ready."""
        return sum(slot.ready for slot in self._slots)

    @property
    def changing(self) -> bool:
        """Return whether some children are still to be replaced."""
        return any(slot.changing for slot in self._slots)

    def done(self) -> bool:
        """Return whether all children have ended, and no other is to be started."""
        return not self._children and (self.stopping or all(slot.finished for slot in self._slots))

    def run_once(self) -> None:
        """Look after each child, and start those that are missing or to be replaced."""
        for child in self.children:
            child.flush()
            self._look_after(child)
        if self.stopping:
            return
        for slot in self._slots:
            # Children are replaced one after the other, so that most of them work at any time.
            others = any(other.successor is not None for other in self._slots if other is not slot)
            slot.fill(may_replace=not others)

    def stop(self, reason: str) -> None:
        """Ask all children to stop, and start no others."""
        self.stopping = True
        for child in self._children:
            self._stop(child, reason)

    def reload(self, reason: str) -> None:
        """Replace all children, one after the other."""
        for slot in self._slots:
            slot.replace(reason)

    def kill(self) -> None:
        """Kill all children at once."""
        for child in self.children:
            child.kill_now()

    def _spawn(self) -> Child | None:
        try:
            child = Child(self._orders, on_frame=self._on_frame, on_gone=self._nudge)
        except OSError as error:
            # The system has no memory or too many processes. The children that run go on.
            logger.error(
                "cannot start a process, trying again: %s. Look at the memory and the number of processes of this host",
                error, extra={"event": "child_not_started"},
            )  # fmt: skip
            return None
        self._children.append(child)
        logger.info("process %d started", child.pid, extra={"event": "child_started", **child.keys})
        return child

    def _stop(self, child: Child, reason: str) -> None:
        child.stop(reason, within=self._options.shutdown_timeout.total_seconds() + numbers.STOP_MARGIN_SECONDS)

    def _look_after(self, child: Child) -> None:
        status = child.exit_status()
        if status is not None:
            self._ended(child, status)
            return
        verdict = find_verdict(child, time.monotonic(), grace=self._options.grace.total_seconds())
        if verdict is not None and not child.kill_reason:
            extra = {"event": "child_killed", "reason": verdict.why, **child.keys}
            logger.error("killing process %d: %s", child.pid, verdict.why, extra=extra)
            child.kill(verdict.why, verdict.culprits)

    def _ended(self, child: Child, status: int) -> None:
        begun = child.board.begun()
        child.close(end_group=status != 0)
        self._children.remove(child)
        extra = {"exit_status": status, "reason": child.stop_reason or child.kill_reason, **child.keys}
        if status == 0 or child.stop_reason or child.kill_reason:
            logger.info(
                "process %d ended: %s", child.pid, describe_exit(status), extra={"event": "child_ended", **extra}
            )
        else:
            logger.error(
                "process %d died: %s. The %d message(s) that it had begun count an attempt; those that it had not "
                "started are given back", child.pid, describe_exit(status), len(begun),
                extra={"event": "child_died", **extra},
            )  # fmt: skip
        self._on_end(child, status, begun)
        if self.stopping:
            self.clean &= status == 0
        else:
            self._succeed(child, status, worked=bool(begun or (child.report and any(child.report.totals.values()))))

    def _succeed(self, child: Child, status: int, *, worked: bool) -> None:
        for slot in self._slots:
            if not slot.has(child):
                continue
            delay = slot.vacate(child, worked=worked)
            gives_up = self._options.once or slot.failed_starts > numbers.MOST_FAILED_STARTS
            if (self._options.once or self._options.drain) and (status == 0 or gives_up):
                slot.finished = True
                self.clean &= status == 0
            elif delay:
                extra = {"event": "child_delayed", "seconds": round(delay, 1)}
                logger.warning(
                    "process %d ended soon after its start: the next one starts in %.1f s. The lines above say why",
                    child.pid,
                    delay,
                    extra=extra,
                )
