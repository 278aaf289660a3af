"""Check arguments before anything is sent: an error names the argument that has the wrong type."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from django_pgqueue.conf import settings
from django_pgqueue.exceptions import InvalidMessage

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
