"""Check arguments before anything is sent: an error names the argument that has the wrong type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any

from django_pgqueue.conf import settings
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.handlers import name_of
from django_pgqueue.jsonb import to_json
from django_pgqueue.limits import parse_rate
from django_pgqueue.outcomes import KEEP

FIRST_TIME, END_OF_TIMES = datetime(2, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)
LONGEST = timedelta(days=365_000)
"""The longest delay, lease or pause, as in the SQL functions: Python can read the time that it leads to."""
MAX_INTEGER = 2**31 - 1


def aware(moment: Any, what: str) -> datetime | None:
    """Return the moment, or None. Raises InvalidMessage unless it is an aware datetime of the years 2 to 9998."""
    if moment is None:
        return None
    if not isinstance(moment, datetime):
        raise InvalidMessage(
            f"{what} is not a datetime but {type(moment).__name__}",
            hint="Use django.utils.timezone.now().",
        )
    if moment.tzinfo is None:
        raise InvalidMessage(f"{what} is a naive datetime", hint="Use django.utils.timezone.now() or make_aware().")
    if not FIRST_TIME <= moment < END_OF_TIMES:
        raise InvalidMessage(f"{what} is outside of the years 2 to 9998", hint="Give a time that every time zone has.")
    return moment


def checked_duration(value: Any, what: str) -> timedelta | None:
    """Return the duration, or None. Raises InvalidMessage unless it is a timedelta of at most 365,000 days."""
    if value is None:
        return None
    if not isinstance(value, timedelta):
        raise InvalidMessage(
            f"{what} is not a timedelta but {type(value).__name__}", hint="Use datetime.timedelta(seconds=…)."
        )
    if not -LONGEST <= value <= LONGEST:
        raise InvalidMessage(f"{what} is longer than 365000 days", hint="Give a shorter one.")
    return value


def lease_duration(value: Any) -> timedelta:
    """Return how long a lease is to last: the value, or the setting LEASE for None. Raises InvalidMessage unless it is
    a positive timedelta."""
    lease: timedelta | None = settings.LEASE if value is None else checked_duration(value, "lease")
    if not lease or lease < timedelta(0):
        raise InvalidMessage(f"lease is {lease}: it is not positive", hint="Give a timedelta longer than zero.")
    return lease


def checked_whole(value: Any, what: str, *, least: int = -MAX_INTEGER, most: int = MAX_INTEGER) -> int:
    """Return the number. Raises InvalidMessage unless it is an int, and not a bool, from ``least`` to ``most``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidMessage(f"{what} is not an integer but {type(value).__name__}", hint="Give an int.")
    if not least <= value <= most:
        raise InvalidMessage(
            f"{what} is {value}: it is not between {least:,} and {most:,}", hint="Give a number of this range."
        )
    return value


def boolean(value: Any, what: str) -> bool:
    """Return the bool. Raises InvalidMessage for anything else: text like "no" would count as true."""
    if not isinstance(value, bool):
        raise InvalidMessage(f"{what} is not a bool but {type(value).__name__}", hint="Give True or False.")
    return value


def checked_text(value: Any, what: str) -> str:
    """Return the text. Raises InvalidMessage unless it is a str that PostgreSQL can store; it judges the length."""
    if not isinstance(value, str):
        raise InvalidMessage(f"{what} is not a str but {type(value).__name__}", hint="Give a str.")
    if "\0" in value:
        raise InvalidMessage(f"{what} contains NUL, which PostgreSQL cannot store", hint="Remove it.")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            # The cause would quote the value.
            raise InvalidMessage(f"{what} contains half a surrogate pair: it is not text", hint="Clean it.") from None
    return value


def optional_text(value: Any, what: str) -> str | None:
    """Return the text, or None. Raises InvalidMessage as :func:`checked_text` does."""
    return None if value is None else checked_text(value, what)


def id_of(value: Any) -> int:
    """Return the id. Raises InvalidMessage unless it is a 64-bit integer."""
    return checked_whole(value, "an id", least=-(2**63), most=2**63 - 1)


def ids_of(ids: Any) -> list[int]:
    """Return one id or several as a list. Raises InvalidMessage for anything that is not an integer."""
    if isinstance(ids, str | bytes) or not isinstance(ids, int | Iterable):
        raise InvalidMessage(f"ids are not integers but {type(ids).__name__}", hint="Give one id, or a list.")
    listed = [ids] if isinstance(ids, int) else list(ids)
    return [id_of(each) for each in listed]


def handler_name(handler: Any) -> str:
    """Return the name of a handler: the given one, or that of the decorated function. Raises InvalidMessage."""
    return checked_text(name_of(handler), "handler")


def channel_names(queue: Any, channel: Any) -> tuple[str, str]:
    """Return the name of the queue and that of the channel. Raises InvalidMessage."""
    return checked_text(queue, "queue"), checked_text(channel, "channel")


def pause_of(reason: Any, until: Any) -> tuple[str, datetime | None]:
    """Return the reason of a pause and its end, or None. Raises InvalidMessage."""
    return checked_text(reason, "reason"), aware(until, "until")


def interval_text(value: Any, what: str) -> str | None:
    """Return a duration as JSON has it. Raises InvalidMessage as :func:`checked_duration` does."""
    duration = checked_duration(value, what)
    return None if duration is None else f"{duration.total_seconds():f} seconds"


def finite(value: Any, what: str) -> float:
    """Return the number. Raises InvalidMessage unless it is one, and neither NaN nor infinite."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise InvalidMessage(f"{what} takes a number or None, not {value!r}", hint="Give a part such as 0.75.")
    return value


def mapping(value: Any, what: str) -> dict[str, Any]:
    """Return the mapping as a dict. Raises InvalidMessage unless it is one that JSON has."""
    if not isinstance(value, Mapping):
        raise InvalidMessage(f"{what} is not a mapping but {type(value).__name__}", hint="Give a dict.")
    to_json(dict(value), what)
    return dict(value)


def handler_names(handlers: Any, what: str) -> list[str]:
    """Return the names of handlers, or of decorated functions. Raises InvalidMessage for anything else."""
    if isinstance(handlers, str | bytes | Mapping) or not isinstance(handlers, Iterable):
        raise InvalidMessage(f"{what} are not a list but {type(handlers).__name__}", hint="Give a list of names.")
    return [handler_name(handler) for handler in handlers]


CHECKS: dict[str, Callable[[Any, str], Any]] = {
    **dict.fromkeys(("max_concurrency", "max_size", "max_cost", "release_burst", "weight"), checked_whole),
    **dict.fromkeys(("full_policy", "archive", "on_dead", "fairness", "per"), checked_text),
    **dict.fromkeys(("ordered", "events", "forgive"), boolean),
    **dict.fromkeys(("release_interval", "retention", "dead_letter_retention"), interval_text),
    "max_share": finite,
    "context": mapping,
    "handlers": handler_names,
}
NOT_NULL = {"release_burst", "context", "handlers", "forgive"}


def settings_as_json(*, rate: Any = KEEP, **given: Any) -> str | None:
    """Return the settings of a channel, a queue or a shared limit that are given, as JSON text.

    ``rate``: stands for ``release_interval`` and ``release_burst``. ``given``: the others; None lifts one, KEEP leaves
    it out. PostgreSQL judges the values. Raises InvalidMessage for a value of another type.
    """
    if rate is not KEEP:
        if not given.get("release_interval", KEEP) is given.get("release_burst", KEEP) is KEEP:
            raise InvalidMessage("rate stands for release_interval and release_burst", hint="Give it, or the two.")
        given["release_interval"], given["release_burst"] = (None, 1) if rate is None else parse_rate(rate)
    checked = {
        name: value if value is None and name not in NOT_NULL else CHECKS[name](value, name)
        for name, value in given.items()
        if value is not KEEP
    }
    return to_json(checked, "settings")
