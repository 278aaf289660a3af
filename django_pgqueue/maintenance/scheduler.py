"""Fire schedules that are due by the database's clock; cron expressions are computed here."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypedDict, assert_never

from django.db import OperationalError
from django.db.models import BigIntegerField
from django.db.models.expressions import RawSQL

from django_pgqueue.exceptions import ChannelBusy, PgQueueError
from django_pgqueue.lifecycle.schedules import Fired, schedule_fire
from django_pgqueue.maintenance import declared
from django_pgqueue.models import Schedule
from django_pgqueue.models.expressions import StatementTimestamp

if TYPE_CHECKING:
    from django_stubs_ext import WithAnnotations

    class ScheduleAnnotations(TypedDict):
        """Name the columns that :func:`due_schedules` adds to a schedule."""

        now: datetime
        version: int

    Due = WithAnnotations[Schedule, ScheduleAnnotations]

logger = logging.getLogger("django_pgqueue.maintenance")

MOST_RUN_SCHEDULES = 100
"""One run fires at most this many schedules, because maintenance has other steps five times a second."""
REST_SECONDS = 60.0
SHORT_REST_SECONDS = 3.0
"""A schedule that failed is left out for REST_SECONDS, or for SHORT_REST_SECONDS if its channel was busy, so that it
does not delay the others."""


@dataclass(frozen=True, slots=True)
class ScheduleCounts:
    """Hold the counts of one run.

    ``fired``: messages that were enqueued. ``passed_over``: ticks without a message, because an earlier message is live
    or the channel drops the new one. ``failed``: ticks that the channel refused, and schedules that failed.
    """

    fired: int
    passed_over: int
    failed: int

    @property
    def more(self) -> bool:
        """Return whether more schedules may be due than one run fires."""
        return self.fired + self.passed_over + self.failed >= MOST_RUN_SCHEDULES


class Scheduler:
    """Fire due schedules; any number of schedulers may run at the same time, because the database fires a tick once.

    Its first run also writes the schedules and shared limits that code declares to the database.
    """

    def __init__(self) -> None:
        self._synced = False
        self._resting: dict[str, float] = {}

    def run_once(self, using: str) -> ScheduleCounts:
        """Fire the schedules that are due on the database ``using``. Returns the counts.

        A schedule that fails is logged and rests for a while. Raises the database's error if the connection is lost.
        """
        if not self._synced:
            declared.sync_declared(using)
            self._synced = True
        now = time.monotonic()
        self._resting = {name: until for name, until in self._resting.items() if until > now}
        fired = passed_over = failed = 0
        for schedule in due_schedules(using, self._resting):
            try:
                ticks = self._fire(schedule, using)
            except (PgQueueError, OperationalError) as error:
                # A lost connection concerns all schedules, so the maintenance loop handles it.
                if isinstance(error, OperationalError) and not is_lock_timeout(error):
                    raise
                text = str(error).strip()
                busy = isinstance(error, ChannelBusy | OperationalError)
                self._record_failure(schedule, text, rest=SHORT_REST_SECONDS if busy else REST_SECONDS)
                if not busy:
                    Schedule.objects.using(using).filter(pk=schedule.pk).update(last_error=text)
                failed += 1
                continue
            made = sum(tick.outcome == "created" for tick in ticks)
            refused = sum(tick.outcome == "refused" for tick in ticks)
            fired, failed, passed_over = fired + made, failed + refused, passed_over + len(ticks) - made - refused
        return ScheduleCounts(fired, passed_over, failed)

    def _fire(self, schedule: Due, using: str) -> list[Fired]:
        table, now, first = schedule.timetable, schedule.now, schedule.next_fire_at
        ticks = [] if first is None else ticks_of(schedule, first)
        following = table.after(now, tick=first)
        fired = schedule_fire(schedule.pk, schedule.version, ticks, following, handler=schedule.handler, using=using)
        if first is not None and not ticks:
            self._log_missed(schedule, now)
        for tick in fired:
            if tick.outcome == "refused":
                self._record_failure(schedule, tick.error, rest=0)
        return fired

    def _record_failure(self, schedule: Schedule, text: str, *, rest: float) -> None:
        self._resting[schedule.name] = time.monotonic() + rest
        extra = {"event": "schedule_failed", "schedule": schedule.name}
        logger.error("schedule %s did not fire: %s", schedule.name, text, extra=extra)

    def _log_missed(self, schedule: Schedule, now: datetime) -> None:
        extra = {"event": "schedule_missed", "schedule": schedule.name}
        logger.warning(
            "schedule %s: no worker fired its ticks since %s; they are skipped",
            schedule.name,
            schedule.next_fire_at,
            extra=extra,
        )


def due_schedules(using: str, resting: Collection[str] = ()) -> list[Due]:
    """Return the schedules that are due, the one that is due longest first, then those that have no next time yet.

    ``using``: database alias. ``resting``: names to leave out. Each schedule has the database's ``now`` and the
    ``version`` of its row. There are two queries, because an index answers each of them for any number of schedules.
    """
    rows = Schedule.objects.using(using).filter(enabled=True, removed_at=None).exclude(name__in=resting)
    annotated = rows.annotate(
        now=StatementTimestamp(), version=RawSQL("pgqueue_schedule.xmin::text::bigint", (), BigIntegerField())
    )
    late = list(annotated.filter(next_fire_at__lte=StatementTimestamp()).order_by("next_fire_at")[:MOST_RUN_SCHEDULES])
    return [*late, *annotated.filter(next_fire_at=None).order_by("id")[: MOST_RUN_SCHEDULES - len(late)]]


def ticks_of(schedule: Due, first: datetime) -> list[datetime]:
    """Return the ticks from ``first`` to now that fire, by the schedule's policy for missed ticks, oldest first."""
    match Schedule.Missed(schedule.missed):
        case Schedule.Missed.SKIP:
            [newest] = schedule.timetable.passed(first, schedule.now, 1)
            return [newest] if schedule.now - newest <= schedule.grace else []
        case Schedule.Missed.ONCE:
            return schedule.timetable.passed(first, schedule.now, 1)
        case Schedule.Missed.ALL:
            return schedule.timetable.passed(first, schedule.now, schedule.missed_limit)
        case unknown:
            assert_never(unknown)


def is_lock_timeout(error: OperationalError) -> bool:
    """Return whether the error is that a lock was not granted in time."""
    return getattr(error.__cause__, "sqlstate", None) == "55P03"
