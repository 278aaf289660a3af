"""channel_set: create a channel, or change its limits."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.lifecycle.binding import to_json
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call

KINDS: dict[str, type] = {
    "max_concurrency": int,
    "max_size": int,
    "full_policy": str,
    "release_interval": timedelta,
    "release_burst": int,
    "weight": int,
}


def channel_set(name: str, queue: str = "default", *, using: str | None = None, **limits: Any) -> int:
    """Create the channel if it is not there, open it again if it was released, and set the limits that are named.
    Returns its id.

    Limits: ``max_concurrency``, ``max_size``, ``full_policy`` (``error`` | ``drop``), ``release_interval`` (timedelta),
    ``release_burst``, ``weight`` (1 to 1000). None lifts a limit; one that is not named stays. Raises InvalidMessage.
    """
    for limit, value in limits.items():
        kind = KINDS.get(limit)
        if kind is not None and value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            raise InvalidMessage(f"{limit} takes {kind.__name__} or None, not {value!r}")
    plain = {
        key: f"{value.total_seconds():f} seconds" if isinstance(value, timedelta) else value
        for key, value in limits.items()
    }
    sql = "SELECT pgqueue_channel_set(%s::text, %s::text, %s::jsonb)"
    channel: int = call(alias(using), sql, (name, queue, to_json(plain, "limits")))[0][0]
    return channel
