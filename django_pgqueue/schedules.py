"""Register the schedules that code declares. Rows of the database follow it: see maintenance/declared.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from django.conf import settings as django_settings

from django_pgqueue import handlers
from django_pgqueue.delivery import NO_PAYLOAD
from django_pgqueue.exceptions import InvalidSchedule
from django_pgqueue.signatures import check_scheduled, locate
from django_pgqueue.timetable import Timetable

Missed = Literal["skip", "once", "all"]
SCHEDULE_NAME_CHARACTERS = 150


@dataclass(frozen=True, slots=True)
class Declared:
    """Hold a schedule as code declares it; see :func:`schedule`.

    ``name``: the schedule's own name, or None. ``handler``: the handler's name if it is given, or None. ``function``:
    the decorated function. ``module``: where it is declared. ``values``: the other columns of the row.
    """

    name: str | None
    handler: str | None
    function: handlers.Function | None
    module: str
    values: Mapping[str, Any] = field(hash=False)

    @property
    def handler_name(self) -> str:
        """Return the given name of the handler, or the name under which the function is registered.

        It is looked up late, because decorators come in any order. Raises InvalidSchedule if the function is not a
        handler, or has several names.
        """
        if self.handler is not None:
            return self.handler
        if self.function is None:
            raise InvalidSchedule(f"a schedule in {self.module} has no handler", hint="Name it with handler=.")
        names = handlers.names_of(self.function)
        if len(names) == 1:
            return names[0]
        where = f"{self.module}.{self.function.__qualname__}"
        problem = f"is a handler with {len(names)} names ({', '.join(names)})" if names else "is not a handler"
        raise InvalidSchedule(f"{where} has a schedule, but {problem}", hint="Use @handler, or name it with handler=.")

    @property
    def row_name(self) -> str:
        """Return the schedule's own name, or else the handler's."""
        return self.name or self.handler_name


_declared: list[Declared] = []


def schedule(
    when: str | timedelta,
    *,
    name: str | None = None,
    handler: str | None = None,
    payload: Any = NO_PAYLOAD,
    headers: Mapping[str, Any] | None = None,
    channel: str = "default",
    queue: str | None = None,
    priority: int = 0,
    time_zone: str | None = None,
    missed: Missed = "skip",
    missed_limit: int = 100,
    grace: timedelta = timedelta(minutes=1),
    overlap: bool = True,
    enabled: bool = True,
) -> Callable[[handlers.F], handlers.F]:
    """Enqueue a message for the decorated handler at each tick, once per tick, however many workers run.

    ``when``: a cron expression, by the wall clock of ``time_zone`` (default: the setting TIME_ZONE), or an interval (a
    timedelta). ``name``: the schedule's name; default: the handler's. ``handler``: the handler's name; default: the
    decorated function's. ``payload``, ``headers``, ``channel``, ``queue``, ``priority``: those of the messages.

    ``missed``: what happens to ticks at which no worker ran: ``skip`` drops them, ``once`` fires the newest, ``all``
    fires up to ``missed_limit`` of them. ``grace``: a timedelta; a tick that is less late than this is not missed, and
    fires. ``overlap``: with False, a tick makes no message while the message of an earlier one is live.

    The declaration overwrites the row in the database each time a worker starts, except ``enabled``, which applies only
    when the row is created. Raises InvalidSchedule.
    """
    if callable(when):
        raise InvalidSchedule(
            f"@schedule on {locate(when)} does not say when", hint='Write @schedule("0 3 * * *").', field="cron"
        )
    timetable = timetable_of(when, time_zone)
    timetable.check()
    if missed not in ("skip", "once", "all"):
        raise InvalidSchedule(f"missed is {missed!r}: it is skip, once or all", field="missed")
    if isinstance(missed_limit, bool) or not isinstance(missed_limit, int):
        raise InvalidSchedule(
            f"missed_limit is not an integer but {type(missed_limit).__name__}",
            hint="Give an int.",
            field="missed_limit",
        )
    if not 1 <= missed_limit <= 1000:
        raise InvalidSchedule("missed_limit is not between 1 and 1000", field="missed_limit")
    if not isinstance(grace, timedelta):
        raise InvalidSchedule(
            f"grace is not a timedelta but {type(grace).__name__}",
            hint="Use datetime.timedelta(seconds=…).",
            field="grace",
        )
    if grace < timedelta(0):
        raise InvalidSchedule("grace is negative", field="grace")
    if name is not None and not 1 <= len(name) <= SCHEDULE_NAME_CHARACTERS:
        raise InvalidSchedule(f"the name takes 1 to {SCHEDULE_NAME_CHARACTERS} characters", field="name")
    values = {
        "cron": timetable.cron, "every": timetable.every, "time_zone": timetable.time_zone,
        "payload": {} if payload is NO_PAYLOAD else payload,
        "headers": None if headers is None else dict(headers), "channel": channel, "queue": queue,
        "priority": priority, "missed": missed, "missed_limit": missed_limit, "grace": grace, "overlap": overlap,
        "enabled": enabled,
    }  # fmt: skip

    def declare(function: handlers.F) -> handlers.F:
        if handler is None:
            try:
                check_scheduled(function)
            except ValueError as error:
                raise InvalidSchedule(str(error), field="handler") from None
        _declared.append(Declared(name, handler, function, function.__module__, values))
        return function

    return declare


def timetable_of(when: str | timedelta, time_zone: str | None = None) -> Timetable:
    """Return the timetable of a cron expression or an interval. Raises InvalidSchedule."""
    zone = time_zone or django_settings.TIME_ZONE or "UTC"
    match when:
        case str():
            return Timetable(cron=when, time_zone=zone)
        case timedelta():
            return Timetable(every=when, time_zone=zone)
    hint = 'Write "0 3 * * *", or datetime.timedelta(seconds=…).'
    raise InvalidSchedule(f"{when!r} is neither a cron expression nor a timedelta", hint=hint, field="cron")


@dataclass(frozen=True, slots=True)
class Collected:
    """Hold the declarations by name.

    ``problems``: errors of declarations that are ignored, because their function is not a handler or their name is
    taken.
    """

    found: Mapping[str, Declared]
    problems: tuple[InvalidSchedule, ...]


def collect_declared_schedules() -> Collected:
    """Return the declarations by name, and the errors of those that are ignored."""
    found: dict[str, Declared] = {}
    problems: list[InvalidSchedule] = []
    for item in _declared:
        try:
            known = found.setdefault(item.row_name, item)
        except InvalidSchedule as error:
            problems.append(error)
            continue
        if known is not item:
            problems.append(
                InvalidSchedule(
                    f"two schedules are called {item.row_name!r}, in {known.module} and {item.module}",
                    hint="Give each a name of its own: @schedule(…, name=…).",
                )
            )
    return Collected(found, tuple(problems))
