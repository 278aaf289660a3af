"""Describe the handler or schedule for each task and schedule of a Celery app, without importing Celery."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

CRON_FIELDS = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
PERIODS = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True, slots=True)
class Port:
    """Describe one task or schedule. ``becomes``: a decorator, or None if nothing here corresponds to it. ``notes``:
    what a person must check."""

    name: str
    becomes: str | None
    notes: tuple[str, ...]


def tasks(app: Any) -> Iterator[Port]:
    """Yield the project's own tasks, by name."""
    for name in sorted(app.tasks):
        if not name.startswith("celery."):
            yield port_task(app.tasks[name], celery_queue_of(app, app.tasks[name]))


def celery_queue_of(app: Any, task: Any) -> str | None:
    """Return the queue that the task is sent to, or None for the app's default one."""
    queue = getattr(task, "queue", None) or app.amqp.router.route({}, task.name, task_type=task).get("queue")
    name = getattr(queue, "name", queue)
    return None if name == app.conf.task_default_queue else name


def port_task(task: Any, queue: str | None) -> Port:
    """Return the description of one task."""
    options = {"queue": f'"{queue}"'} if queue else {}
    notes: list[str] = []
    options |= celery_retries(task, notes)
    if seconds := task.soft_time_limit or task.time_limit:
        options["timeout"] = seconds_of(seconds)
        notes.append("At its timeout HandlerTimeout is raised in it.")
    if task.rate_limit is not None:
        notes.append(f"rate_limit={task.rate_limit!r} holds in each worker. Here: {channel_rate(task.rate_limit)}")
    if task.expires is not None:
        notes.append(f"expires={task.expires!r}: nothing expires here. Check delivery.created_at in the handler.")
    if not task.ignore_result:
        notes.append("If its result is read: Complete(result) keeps it in the archive; no caller can wait for it.")
    arguments = "".join(f", {option}={value}" for option, value in options.items())
    return Port(task.name, f'@handler("{task.name}"{arguments})', tuple(notes))


def celery_retries(task: Any, notes: list[str]) -> dict[str, str]:
    """Return max_attempts and backoff; Celery's count leaves the first run out."""
    automatic = tuple(getattr(task, "autoretry_for", ()))
    if not automatic and not takes_self(task):
        return {"max_attempts": "1"}
    if automatic:
        names = ", ".join(kind.__name__ for kind in automatic)
        if automatic != (Exception,):
            notes.append(
                f"Only {names} is tried again there. Here every exception is: raise Reject(reason) for others."
            )
    else:
        notes.append(
            "self.retry(countdown=60) becomes: raise Retry(after=timedelta(seconds=60)). Other exceptions, which"
        )
        notes[-1] += " failed it at once there, are tried again here: raise Reject(reason) for those."
    options = {}
    if task.max_retries is None:
        notes.append("max_retries=None, for ever. Choose a large max_attempts: here every message ends.")
    else:
        options["max_attempts"] = str(task.max_retries + 1)
    if factor := getattr(task, "retry_backoff", False):
        longest = getattr(task, "retry_backoff_max", 600)
        options["backoff"] = f"Exponential({seconds_of(int(factor))}, longest={seconds_of(longest)})"
    else:
        options["backoff"] = f"Constant({seconds_of(task.default_retry_delay)})"
    return options


def takes_self(task: Any) -> bool:
    """Return whether the task was made with bind=True: its function is then bound to it."""
    return getattr(task.run, "__self__", None) is task


def channel_rate(rate: str | float) -> str:
    """Return a rate of Celery ('10/m', 5) as the limit of a channel."""
    count, _, period = str(rate).partition("/")
    interval = timedelta(seconds=PERIODS.get(period or "s", 1)) / float(count) if float(count) else None
    if interval is None:
        return "pause its channel."
    return f"a channel of its own, channel_set(…, release_interval={seconds_of(interval.total_seconds())})."


def celery_schedules(app: Any, rows: Iterable[Any] = ()) -> Iterator[Port]:
    """Yield what to write for each schedule of Celery beat: a line with @schedule, and notes.

    ``app``: the Celery app, whose ``beat_schedule`` is read. ``rows``: PeriodicTask rows of django-celery-beat. A
    schedule that has no equivalent here is yielded without a line; its note says what to do.
    """
    for name, entry in sorted((app.conf.beat_schedule or {}).items()):
        values = {"args": entry.get("args", ()), "kwargs": entry.get("kwargs", {})}
        yield port_schedule(name, entry["task"], entry["schedule"], values, zone=app.timezone)
    for row in rows:
        # The schedule of a solar row would need a library that computes the sun's position.
        when = row.solar or row.schedule
        values = {"args": row.args, "kwargs": row.kwargs}
        zone = row.crontab and row.crontab.timezone
        yield port_schedule(row.name, row.task, when, values, zone=zone, enabled=row.enabled)


def port_schedule(
    name: str, task: str, when: Any, values: Mapping[str, Any], *, zone: Any = None, enabled: bool = True
) -> Port:
    """Return the description of one schedule."""
    notes = [
        f"{key}={value!r}: put it into payload=."
        for key, value in values.items()
        if value and value not in ("[]", "{}")
    ]
    argument = timetable(when)
    if argument is None:
        once = hasattr(when, "clocked_time")
        instead = "enqueue it once, with dequeue_at=." if once else "there is no such schedule here."
        return Port(name, None, (f"{when} of {task}: {instead}", *notes))
    if argument.startswith('"') and zone:
        argument += f', time_zone="{zone}"'
    state = "" if enabled else ", enabled=False"
    return Port(name, f'@schedule({argument}, name="{name}"{state})  # on the handler "{task}"', tuple(notes))


def timetable(when: Any) -> str | None:
    """Return a crontab or an interval as the first argument of @schedule; None for others, such as solar ones."""
    if all(hasattr(when, f"_orig_{field}") for field in CRON_FIELDS):
        return '"' + " ".join(str(getattr(when, f"_orig_{field}")).replace(" ", "") for field in CRON_FIELDS) + '"'
    if isinstance(when, int | float):
        return seconds_of(when)
    every = when if isinstance(when, timedelta) else getattr(when, "run_every", None)
    return seconds_of(every.total_seconds()) if isinstance(every, timedelta) else None


def seconds_of(seconds: float) -> str:
    """Return the source code of a timedelta."""
    return f"timedelta(seconds={seconds:g})"
