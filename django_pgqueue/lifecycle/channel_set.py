"""channel_set: create a channel, or change its limits."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call


def channel_set(name: str, queue: str = "default", *, using: str | None = None, **limits: Any) -> int:
    """Create the channel if it is not there, open it again if it was released, and set the limits that are named. Returns its id.

    Limits: ``max_concurrency``, ``max_size``, ``full_policy`` (``error`` | ``drop``), ``release_interval`` (timedelta),
    ``release_burst``, ``weight`` (1 to 1000). None lifts a limit; one that is not named stays. Raises InvalidMessage.
    """
    plain = {
        key: f"{value.total_seconds()} seconds" if isinstance(value, timedelta) else value for key, value in limits.items()
    }
    sql = "SELECT pgqueue_channel_set(%s::text, %s::text, %s::jsonb)"
    return call(alias(using), sql, (name, queue, json.dumps(plain)))[0][0]
