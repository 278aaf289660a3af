"""Examine whether maintenance runs: live workers, swept leases, ticks, schedules."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from django_pgqueue.conf import settings
from django_pgqueue.doctor.finding import SHOWN_NAMES, Finding, Limits, Severity, age_text, list_text, safe_name
from django_pgqueue.sql.call import call

WORKERS = """
SELECT w.name, w.hostname, w.pid, w.heartbeat_at, clock_timestamp() - w.heartbeat_at
FROM pgqueue_worker AS w
WHERE w.heartbeat_at < clock_timestamp() - %s::interval
ORDER BY w.heartbeat_at
LIMIT %s
"""
PAUSED = "SELECT w.name FROM pgqueue_worker AS w WHERE w.paused_at IS NOT NULL ORDER BY w.name LIMIT %s"
GIVEN_BACK = """
SELECT w.name, t.given_back, t.settled
FROM pgqueue_worker AS w
CROSS JOIN LATERAL (
    SELECT coalesce(sum(e.value::numeric) FILTER (WHERE e.key = 'given_back'), 0)::bigint AS given_back,
        coalesce(sum(e.value::numeric) FILTER (WHERE e.key NOT IN ('given_back', 'lease_lost')), 0)::bigint AS settled
    FROM jsonb_each(CASE jsonb_typeof(w.totals) WHEN 'object' THEN w.totals ELSE '{}' END) AS e
    WHERE jsonb_typeof(e.value) = 'number'
) AS t
WHERE t.given_back >= %s AND t.given_back > t.settled * %s
ORDER BY t.given_back DESC
LIMIT %s
"""
UNSWEPT = """
SELECT clock_timestamp() - min(m.lease_expires_at) FROM pgqueue_message AS m
WHERE m.lease_expires_at < clock_timestamp() - %s::interval
"""
TICKED = """
SELECT clock_timestamp() - f.ticked_at
FROM (SELECT f.ticked_at FROM pgqueue_floor AS f ORDER BY f.id DESC LIMIT 1) AS f
WHERE f.ticked_at < clock_timestamp() - %s::interval AND EXISTS (SELECT FROM pgqueue_message)
"""
LATE = """
SELECT s.name, clock_timestamp() - s.next_fire_at FROM pgqueue_schedule AS s
WHERE s.enabled AND s.removed_at IS NULL AND s.next_fire_at < clock_timestamp() - %s::interval
ORDER BY s.next_fire_at
LIMIT %s
"""
FAILING = """
SELECT s.name FROM pgqueue_schedule AS s
WHERE s.enabled AND s.removed_at IS NULL AND s.last_error <> ''
ORDER BY s.name
LIMIT %s
"""
# A worker that was silent for longer has lost its messages to others long ago; the dashboard tells it apart, too.
RECENTLY_SILENT = timedelta(hours=1)
# Below this number it may be one breaker that has opened, and below this part of the messages it costs little.
MANY_GIVEN_BACK = 1000
PART_GIVEN_BACK = 0.2
SWEEP = "Start a worker, which runs maintenance; in a project without workers, run manage.py sweepqueue by cron."


def examine_housekeeping(using: str, limits: Limits) -> Iterator[Finding]:
    """Report workers, leases, ticks and schedules that maintenance has left behind."""
    for row in call(using, WORKERS, (settings.LEASE, limits.most)):
        yield silent(*row)
    if names := [row[0] for row in call(using, PAUSED, (limits.most,))]:
        yield paused_workers(names)
    for row in call(using, GIVEN_BACK, (MANY_GIVEN_BACK, PART_GIVEN_BACK, limits.most)):
        yield given_back(*row)
    [(age,)] = call(using, UNSWEPT, (limits.unattended,))
    if age is not None:
        yield unswept(age)
    for (age,) in call(using, TICKED, (5 * limits.unattended,)):
        yield unticked(age)
    if late := call(using, LATE, (limits.unattended, limits.most)):
        yield late_schedules([row[0] for row in late], late[0][1])
    if names := [row[0] for row in call(using, FAILING, (limits.most,))]:
        yield failing_schedules(names)


def given_back(worker: str, messages: int, settled: int) -> Finding:
    """Report a worker that gives many messages back which it has not started."""
    return Finding(
        "given_back",
        Severity.WARNING,
        f"The worker {safe_name(worker)} gave {messages} messages back that it had leased and not started, and settled "
        f"{settled}. Each of them used a token of its rates, and counted for the limits and the share of its channel.",
        "Serve handlers with a concurrency, and functions and async handlers, by workers of their own: another queue "
        "for each kind. If a breaker opens again and again, mend its cause.",
        {"worker": worker, "messages": messages, "settled": settled},
    )


def silent(worker: str, hostname: str, pid: int, since: datetime, age: timedelta) -> Finding:
    """Report a worker without a recent heartbeat. It is a warning for an hour, and then a note."""
    return Finding(
        "worker_silent",
        Severity.WARNING if age < RECENTLY_SILENT else Severity.NOTE,
        f"The worker {safe_name(worker)} (process {pid} on {safe_name(hostname)}) sent its last heartbeat "
        f"{age_text(age)} ago: it died, or cannot reach the database. Its messages go to other workers.",
        "Look at its host and its log. Its row is deleted after a day.",
        {
            "worker": worker, "hostname": hostname, "pid": pid, "since": since.isoformat(),
            "seconds": age.total_seconds(),
        },
    )  # fmt: skip


def paused_workers(names: list[str]) -> Finding:
    """Report workers that are paused."""
    return Finding(
        "worker_paused",
        Severity.NOTE,
        f"{len(names)} worker(s) are paused: {list_text(names)}.",
        "Resume them with manage.py pgqueue resume worker NAME, or in the admin.",
        {"workers": len(names), "shown": names[:SHOWN_NAMES]},
    )


def unswept(age: timedelta) -> Finding:
    """Report that an expired lease was not swept."""
    return Finding(
        "lease_expired",
        Severity.CRITICAL,
        f"A lease expired {age_text(age)} ago and was not swept: messages of dead workers are not delivered again.",
        SWEEP,
        {"seconds": age.total_seconds()},
    )


def unticked(age: timedelta) -> Finding:
    """Report that maintenance has not run."""
    return Finding(
        "no_tick",
        Severity.WARNING,
        f"No worker has run maintenance for {age_text(age)}: scheduled messages are late, and dequeues get slower.",
        SWEEP,
        {"seconds": age.total_seconds()},
    )


def late_schedules(names: list[str], age: timedelta) -> Finding:
    """Report schedules that should have fired."""
    return Finding(
        "schedule_late",
        Severity.WARNING,
        f"{len(names)} schedule(s) should have fired, the first {age_text(age)} ago: {list_text(names)}.",
        "Workers fire them: start one, or look in its log for the event schedule_failed.",
        {"schedules": len(names), "shown": names[:SHOWN_NAMES], "seconds": age.total_seconds()},
    )


def failing_schedules(names: list[str]) -> Finding:
    """Report schedules that failed at their last tick. Their errors are left out, as everywhere in the doctor."""
    return Finding(
        "schedule_failing",
        Severity.WARNING,
        f"{len(names)} schedule(s) failed at their last tick: {list_text(names)}.",
        "The page of schedules in the admin says why, and so does SELECT name, last_error FROM pgqueue_schedule WHERE "
        "last_error <> ''. Repair the cause; manage.py pgqueue run schedule NAME shows whether that helped.",
        {"schedules": len(names), "shown": names[:SHOWN_NAMES]},
    )
