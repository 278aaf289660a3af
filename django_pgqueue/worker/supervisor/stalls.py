"""Stalls: children that hold messages and make no progress with them, whatever the cause.

A process that has no file descriptors left, whose completer waits for a lock that a handler has leaked, or whose
threads do not start, still lives and reports, and the supervisor extends its leases. One whose link is full takes
messages, and can say nothing of it. So progress is what counts: a message that runs within its deadline makes progress;
one that waits to start while nothing runs, or for its settlement, does not. Neither does a process that cannot reach
the database, or that runs nothing and does not report.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable
from datetime import timedelta

from django.db import connections

from django_pgqueue.sql.call import call
from django_pgqueue.worker.hold.lease_keeper import Lease
from django_pgqueue.worker.link.pipe import HeldLease
from django_pgqueue.worker.operate.vitals import LONGEST_SILENCE
from django_pgqueue.worker.supervisor.process import Child

# Leases without progress before a child is replaced; a third of it before probes say so. At least so many seconds.
LEASES = 3
LEAST_SECONDS = 10.0
# While statements of the queue wait for a lock, a fresh process would wait for it, too.
WAITING = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock' AND strpos(query, 'pgqueue_') > 0
"""

logger = logging.getLogger("django_pgqueue.worker")


class Stalls:
    """``children`` and ``leases``: those that are there now. ``clock``: as time.monotonic(), in seconds."""

    def __init__(
        self,
        using: str,
        lease: timedelta,
        *,
        children: Callable[[], Iterable[Child]],
        leases: Callable[[], list[Lease[HeldLease]]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._using = using
        self._limit = max(LEAST_SECONDS, LEASES * lease.total_seconds())
        self._children = children
        self._leases = leases
        self._clock = clock
        self._looked_at = self._since = -math.inf

    def run_once(self) -> None:
        """Note what each child does not get done, and whether it must be replaced.

        Called when the database has just answered the supervisor, and only then. What passed while it did not answer
        is not the children's fault.
        """
        now = self._clock()
        if now - self._looked_at > LONGEST_SILENCE:
            self._since = now
        self._looked_at = now
        leases = self._leases()
        for child in self._children():
            why, since = self._stall(child, [lease for lease in leases if lease.delivery.worker == child.name], now)
            seconds = now - max(since, self._since)
            child.stall = f"{why} for {seconds:.0f} s" if why and seconds > self._limit / LEASES else ""
            if child.stall and seconds > self._limit and not child.stop_reason and not child.stalled:
                self._mark_stalled(child)

    def _stall(self, child: Child, leases: list[Lease[HeldLease]], now: float) -> tuple[str, float]:
        """Return what makes no progress, and since when; "" if all goes well."""
        begun = child.board.begun()
        if any(not entry.ended_at for entry in begun):
            child.ran_at = now
        ended = [entry.ended_at for entry in begun if 0 < entry.ended_at < math.inf]
        known = {entry.id for entry in begun}
        waiting = [lease.held_at for lease in leases if lease.delivery.id not in known]
        found = [("", math.inf)]
        if child.state == "running":
            found.append(("it says nothing", max(child.ran_at, child.heard_at)))
        if child.trouble:
            found.append((f"the database fails it ({child.trouble})", child.trouble_at))
        if ended:
            found.append((f"it has not written down {len(ended)} outcome(s)", min(ended)))
        if waiting:
            found.append((f"it has not started {len(waiting)} message(s)", max(child.ran_at, min(waiting))))
        return min(found, key=lambda stall: stall[1])

    def _mark_stalled(self, child: Child) -> None:
        """Have the child replaced, unless the database is what others wait for, too. Raises Error if it is away."""
        # A connection that is new: the child may have none because there are no more.
        connections[self._using].close()
        [(locked,)] = call(self._using, WAITING)
        extra = {"event": "child_stalled", "reason": child.stall, **child.keys}
        if locked:
            logger.warning(
                "process %d makes no progress: %s; it is not replaced, since %d statement(s) of the queue wait for a "
                "lock in the database. Look at pg_stat_activity and pg_blocking_pids().",
                child.pid, child.stall, locked, extra=extra,
            )  # fmt: skip
            self._since = self._clock()
            return
        logger.error(
            "process %d makes no progress: %s; it is replaced. Look for file descriptors, locks or threads that "
            "handlers leak; stderr shows where its threads are when it is killed.",
            child.pid, child.stall, extra=extra,
        )  # fmt: skip
        child.stalled = child.stall
