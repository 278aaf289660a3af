"""Write and read values in forms that no setting of the server changes.

``array_nulls`` = off makes the text 'NULL' of a NULL in an array, and ``IntervalStyle`` decides how an interval is
written, of which psycopg reads one form. Both are set by ALTER DATABASE or ALTER ROLE, and nothing tells the client.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

SEPARATOR = "\x1f"
"""Separates the JSON texts of an array: JSON has no control characters."""
# Seconds: a little less than timedelta.max.
LONGEST = Decimal(86_400 * 999_999)


def duration_of(seconds: Decimal | None) -> timedelta | None:
    """Return ``extract(epoch FROM interval)`` as a timedelta; one that is too long for Python becomes the longest."""
    if seconds is None:
        return None
    return timedelta(microseconds=int(max(-LONGEST, min(LONGEST, seconds)) * 1_000_000))


def with_durations(row: Sequence[Any], *places: int) -> list[Any]:
    """Return a row with timedeltas at these places, where it has ``extract(epoch FROM interval)``."""
    return [duration_of(value) if place in places else value for place, value in enumerate(row)]


def duration_text(duration: timedelta) -> str:
    """Return a timedelta as text that each ``IntervalStyle`` reads alike: each part has its sign."""
    return f"{duration.days:+d} days {duration.seconds:+d}.{duration.microseconds:06d} seconds"


def json_texts(texts: Sequence[str | None]) -> str | None:
    """Return JSON texts as the parameter of ``string_to_array(%s::text, chr(31), '')::jsonb[]``.

    None is a NULL there.
    """
    return plain_texts(texts, separator=SEPARATOR)


def plain_texts(values: Sequence[Any], text_of: Callable[[Any], str] = str, *, separator: str = ",") -> str | None:
    """Return values as the parameter of ``string_to_array(%s::text, ',', '')``, which takes a cast to another array.

    None is a NULL there. ``text_of``: writes a value as PostgreSQL reads it, without the ``separator``. One None alone
    is None, because an empty text is an empty array.
    """
    return separator.join(["" if value is None else text_of(value) for value in values]) or None
