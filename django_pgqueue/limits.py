"""Declare shared limits in code and in the setting LIMITS. Rows of the database follow: see
maintenance/declared_limits.py."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, fields
from datetime import timedelta
from typing import Any, Literal, NamedTuple

from django_pgqueue.conf import settings
from django_pgqueue.exceptions import InvalidMessage

LIMIT_NAME_CHARACTERS = 200
UNDECLARED = "A handler names this limit, and nothing declares it."
"""The reason of the pause of such a limit. It is compared, so it is not translated."""
HANDLER_PREFIX = "handler "
"""A handler is paused by the shared limit that has this prefix before its name, as pgqueue_handler_limit makes it."""
MOST = 2**31 - 1
LONGEST_INTERVAL = timedelta(days=365_000)


def handler_of_limit(name: str) -> str | None:
    """Return the handler that the shared limit of this name pauses, or None for another limit."""
    return name.removeprefix(HANDLER_PREFIX) if name.startswith(HANDLER_PREFIX) else None


@dataclass(frozen=True, slots=True)
class LimitValues:
    """Hold what a shared limit is declared with, in code or in the setting LIMITS; see :class:`Limit`."""

    name: str
    _: KW_ONLY
    max_concurrency: int | None = None
    max_cost: int | None = None
    rate: str | None = None
    release_interval: timedelta | None = None
    release_burst: int | None = None
    per: Literal["channel"] | None = None

    def check(self) -> None:
        """Raise InvalidMessage for a value that is not allowed."""
        check_limit_name(self.name)
        for what in ("max_concurrency", "max_cost", "release_burst"):
            value = getattr(self, what)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
                raise self.problem(f"{what} is not an integer but {type(value).__name__}", "Give an int, or None.")
            if value is not None and not 1 <= value <= MOST:
                raise self.problem(f"{what} is {value}: it is not between 1 and {MOST:,}", "Pause the limit instead.")
        interval = self.release_interval
        if interval is not None and not isinstance(interval, timedelta):
            raise self.problem(
                f"release_interval is not a timedelta but {type(interval).__name__}",
                "Use datetime.timedelta(seconds=…), or rate.",
            )
        if interval is not None and not timedelta(0) < interval <= LONGEST_INTERVAL:
            raise self.problem(f"release_interval is {interval}", "Give a time longer than zero, or None.")
        if self.per not in (None, "channel"):
            raise self.problem(f"per is {self.per!r}", 'Give "channel", or None.')
        if self.rate is not None and not (interval is None and self.release_burst is None):
            raise self.problem("rate stands for release_interval and release_burst", "Give it, or the two.")
        self.values()

    def problem(self, text: str, hint: str) -> InvalidMessage:
        """Return the exception for a wrong declaration, with the name of the limit. The caller raises it."""
        return InvalidMessage(f"the limit {self.name!r}: {text}", hint=hint)

    def values(self) -> dict[str, Any]:
        """Return the columns of the row in the database. Raises InvalidMessage for a rate that is none."""
        interval, burst = self.release_interval, self.release_burst or 1
        if self.rate is not None:
            try:
                interval, burst = parse_rate(self.rate)
            except InvalidMessage as error:
                raise self.problem(error.message, error.hint) from None
        return {
            "max_concurrency": self.max_concurrency,
            "max_cost": self.max_cost,
            "release_interval": interval,
            "release_burst": burst,
            "per": self.per,
        }


@dataclass(frozen=True, slots=True)
class Limit(LimitValues):
    """Declare a shared limit: messages of any channel and queue may have it, and all workers keep to it together.

    Write it in ``handlers.py`` of an app, and name it in ``@handler(limits=[…])`` or ``enqueue(limits=[…])``. A worker
    that starts, and ``migrate``, write it to the database, over what was edited there; a pause stays.

    ``name``: 1 to 200 characters. ``max_concurrency``: messages that may be leased at the same time. ``max_cost``: the
    sum of the costs of the leased messages. ``rate``: tokens in a time, such as ``"100/s burst 50"``; a message takes
    its cost, which is 1 by default. It stands for ``release_interval``, the time in which one token comes (a
    timedelta), and ``release_burst``, the tokens that may be saved up (default 1). Without any of them, the limit can
    only be paused. ``per``: "channel": each channel has all of this for itself; None: all channels share it.

    Raises InvalidMessage for a value that is not allowed, and for a second declaration of the name that differs.
    """

    def __post_init__(self) -> None:
        self.check()
        known = _declared.setdefault(self.name, self)
        if known != self:
            raise InvalidMessage(
                f"two limits are called {self.name!r}, and they differ: {known} and {self}", hint="Rename one."
            )


_declared: dict[str, LimitValues] = {}
OPTIONS = tuple(field.name for field in fields(LimitValues) if field.name != "name")


def check_limit_name(name: Any) -> str:
    """Return the name. Raises InvalidMessage unless a limit may have it."""
    if not isinstance(name, str):
        raise InvalidMessage(f"the name of a limit is not a str but {type(name).__name__}", hint="Give a str.")
    if not 1 <= len(name) <= LIMIT_NAME_CHARACTERS or "\0" in name:
        raise InvalidMessage(
            f"{name!r} is no name of a limit: it takes 1 to {LIMIT_NAME_CHARACTERS} characters",
            hint="Give it another name.",
        )
    return name


def limit_names(limits: Iterable[str | Limit] | None) -> tuple[str, ...]:
    """Return the names of limits, each once. Raises InvalidMessage for anything that is not a list of names.

    ``limits``: names, or what :class:`Limit` returned; None: no limits.
    """
    if limits is None:
        return ()
    if isinstance(limits, str | bytes | Limit | Mapping) or not isinstance(limits, Iterable):
        raise InvalidMessage(f"limits are not a list but {type(limits).__name__}", hint='Write limits=["stripe"].')
    named = (limit.name if isinstance(limit, Limit) else check_limit_name(limit) for limit in limits)
    return tuple(dict.fromkeys(named))


def collect_declared_limits() -> tuple[dict[str, LimitValues], tuple[InvalidMessage, ...]]:
    """Return the limits that code and the setting LIMITS declare, by name, and the errors of those of the setting.

    If both declare a name, and they differ, that of the setting counts: it is the one that an operator can change.
    """
    found = dict(_declared)
    problems = []
    for name, options in dict(settings.LIMITS).items():
        try:
            found[name] = limit_of(name, options)
        except InvalidMessage as error:
            problems.append(error)
    return found, tuple(problems)


def limit_of(name: Any, options: Any) -> LimitValues:
    """Return a limit of the setting LIMITS. Raises InvalidMessage."""
    if not isinstance(options, Mapping):
        raise InvalidMessage(
            f"LIMITS[{name!r}] is not a dict but {type(options).__name__}", hint='Write {"max_concurrency": 20}.'
        )
    if unknown := sorted(set(options) - set(OPTIONS), key=str):
        raise InvalidMessage(
            f"LIMITS[{name!r}] has unknown options: {', '.join(map(str, unknown))}",
            hint=f"Known options are {', '.join(OPTIONS)}.",
        )
    limit = LimitValues(name, **options)
    limit.check()
    return limit


UNITS = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
RATE_FORM = re.compile(r"\s*(\d{1,9})\s*/\s*(\d{0,9})\s*([smhd])(?:\s+burst\s+(\d{1,9}))?\s*", re.ASCII)
RATE_HINT = (
    'Write how many, a slash and a time, such as "10/m", "1/30s" or "5/s burst 20"; the units are s, m, h and d.'
)


class Rate(NamedTuple):
    """Hold a rate. ``interval``: the time from one delivery to the next. ``burst``: the deliveries at once after a
    quiet time."""

    interval: timedelta
    burst: int


def parse_rate(text: str) -> Rate:
    """Read a rate: ``10/m`` is one delivery in 6 seconds, ``5/s burst 20`` one in 200 ms and up to 20 at once.

    Without ``burst`` it is 1: the deliveries are spread evenly. Raises InvalidMessage.
    """
    found = RATE_FORM.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise InvalidMessage(f"rate is {text!r}, which is no rate", hint=RATE_HINT)
    count, times, unit, burst = found.groups()
    most, span, at_once = int(count), int(times or 1) * UNITS[unit], int(burst or 1)
    if not (most and span and at_once):
        raise InvalidMessage(f"rate is {text!r}: its numbers must be at least 1", hint="Pause the channel instead.")
    interval = span / most
    if not interval:
        raise InvalidMessage(f"rate is {text!r}, more than 1,000,000 in a second", hint="Lift the limit with None.")
    return Rate(interval, at_once)


def rate_text(interval: timedelta | None, burst: int) -> str | None:
    """Return a release interval and a burst as a rate in words, as parse_rate reads them; None without an interval."""
    if interval is None:
        return None
    text = f"1 per {interval}"
    for unit, span in UNITS.items():
        times, seconds = span / interval, interval / span
        if times >= 1 and span / round(times) == interval:
            text = f"{round(times)}/{unit}"
            break
        if seconds == round(seconds):
            text = f"1/{round(seconds)}{unit}"
    return text if burst == 1 else f"{text} burst {burst}"
