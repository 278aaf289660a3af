"""Find children that must be killed, and those that make no progress with their messages, whatever the cause.

A child must be killed if it is past a deadline, does not stop or start, or is silent.

A process without free file descriptors, with a completer that waits for a lock that a handler has leaked, or without
new threads, still runs and reports, and the supervisor extends its leases. A process whose link is full takes messages
and cannot report. So this module looks at progress. A message that runs within its deadline makes progress. A
message that waits to start while nothing runs, or that waits for its settlement, does not. A process makes none if it
cannot reach the database, or runs nothing and does not report.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta

from django.db import connections

from django_pgqueue.sql.call import call
from django_pgqueue.worker import numbers
from django_pgqueue.worker.lease_keeper import HeldLease
from django_pgqueue.worker.process import Child

# Counts the statements of the queue that wait for a lock: a new process would wait for it as well.
LOCK_WAITS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock' AND strpos(query, 'pgqueue_') > 0
"""

logger = logging.getLogger("django_pgqueue.worker")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Say why a child must be killed. ``culprits``: ids of the messages that are the reason."""

    why: str
    culprits: frozenset[int] = frozenset()


def find_verdict(child: Child, now: float, *, grace: float) -> Verdict | None:
    """Return why the child must be killed, or None.

    ``now``: time.monotonic(). ``grace``: the seconds after a deadline in which a handler may end by itself.
    """
    running = child.board.running()
    overdue = frozenset(entry.id for entry in running if entry.deadline + grace + numbers.OVERDUE_SECONDS < now)
    if overdue:
        ids = ", ".join(f"#{message}" for message in sorted(overdue))
        return Verdict(f"it runs past the deadline of {ids}", overdue)
    if now > child.end_by:
        return Verdict(f"it did not stop in time ({child.stop_reason})")
    if not child.ready:
        late = now > child.started_at + numbers.CHILD_START_SECONDS
        return Verdict(f"it was not ready after {numbers.CHILD_START_SECONDS:.0f} s") if late else None
    if not running and now > child.heard_at + numbers.IDLE_SILENCE_SECONDS:
        return Verdict(f"it says nothing for {numbers.IDLE_SILENCE_SECONDS:.0f} s, and runs nothing")
    return None


class Stalls:
    """Find stalled children for the supervisor.

    ``using``: database alias. ``lease``: the duration of a lease. ``children``, ``leases``: return those of the present
    moment, the leases with the time when each was taken. ``clock``: as time.monotonic(), in seconds.
    """

    def __init__(
        self,
        using: str,
        lease: timedelta,
        *,
        children: Callable[[], Iterable[Child]],
        leases: Callable[[], dict[HeldLease, float]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._using = using
        self._limit = max(numbers.LEAST_STALL_SECONDS, numbers.STALL_LEASES * lease.total_seconds())
        self._children = children
        self._leases = leases
        self._clock = clock
        self._looked_at = self._since = -math.inf

    def run_once(self) -> None:
        """Set ``stall`` and ``stalled`` of each child. Raises the database's error.

        It must be called only when the database has just answered the supervisor: the time of an outage does not count
        as a stall.
        """
        now = self._clock()
        if now - self._looked_at > numbers.LONGEST_SILENCE_SECONDS:
            self._since = now
        self._looked_at = now
        leases = self._leases()
        for child in self._children():
            held = {lease.id: since for lease, since in leases.items() if lease.worker == child.name}
            why, since = self._stall(child, held, now)
            seconds = now - max(since, self._since)
            child.stall = (
                f"{why} for {seconds:.0f} s"
                if why and (child.misfit or seconds > self._limit / numbers.STALL_LEASES)
                else ""
            )
            # A new process could not do more with this database, and the attempts would be used up.
            replaceable = not (child.misfit or child.stop_reason or child.stalled)
            if child.stall and seconds > self._limit and replaceable:
                self._mark_stalled(child)

    def _stall(self, child: Child, held: dict[int, float], now: float) -> tuple[str, float]:
        """Return in words what makes no progress, and since when (time.monotonic()); "" if everything does."""
        begun = child.board.begun()
        if any(not entry.ended_at for entry in begun):
            child.ran_at = now
        ended = [entry.ended_at for entry in begun if 0 < entry.ended_at < math.inf]
        if child.misfit:
            return f"its statements fail ({child.database_error})", child.database_error_at
        known = {entry.id for entry in begun}
        waiting = [since for message, since in held.items() if message not in known]
        found = [("", math.inf)]
        if child.state == "running":
            found.append(("it says nothing", max(child.ran_at, child.heard_at)))
        if child.database_error:
            found.append((f"its statements fail ({child.database_error})", child.database_error_at))
        if ended:
            found.append((f"it has not written down {len(ended)} outcome(s)", min(ended)))
        if waiting:
            found.append((f"it has not started {len(waiting)} message(s)", max(child.ran_at, min(waiting))))
        return min(found, key=lambda stall: stall[1])

    def _mark_stalled(self, child: Child) -> None:
        """Have the child replaced, unless statements of the queue wait for a lock, which would stall a new child, too.

        Raises the database's error.
        """
        # A new connection, because the server may have none left, and the child may be stalled for that reason.
        connections[self._using].close()
        [(locked,)] = call(self._using, LOCK_WAITS)
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
