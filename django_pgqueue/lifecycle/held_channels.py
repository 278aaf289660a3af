"""held_channels: report the ordered channels that a failing or deferred message holds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from django_pgqueue.lifecycle.arguments import optional_text
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.lifecycle.health import MOST_COUNTED_ROWS
from django_pgqueue.sql.call import call
from django_pgqueue.sql.values import with_durations

SQL = """
SELECT h.queue, h.channel, h.message_id, h.handler, extract(epoch FROM clock_timestamp() - h.since),
    h.attempts, h.max_attempts, h.held_until, h.behind
FROM pgqueue_held_channels(%s::text, %s::integer) AS h
"""


@dataclass(frozen=True, slots=True)
class HeldChannel:
    """Report an ordered channel that waits until one message is settled for good.

    ``age``: how long ago the message first failed; if it was deferred only, how long ago it was last delivered.
    ``held_until``: when it is delivered again; None: it runs now, or waits for a shared limit. ``behind``: whether
    other messages of the channel are ready.
    """

    queue: str
    channel: str
    message_id: int
    handler: str
    age: timedelta
    attempts: int
    max_attempts: int
    held_until: datetime | None
    behind: bool

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a dict, with ``seconds`` in place of ``age``, and the time in ISO 8601."""
        fields = asdict(self)
        age, until = fields.pop("age"), fields.pop("held_until")
        return {**fields, "seconds": age.total_seconds(), "held_until": until and until.isoformat()}


def held_channels(
    queue: str | None = None, *, most: int = MOST_COUNTED_ROWS, using: str | None = None
) -> list[HeldChannel]:
    """Return the ordered channels that a failing or deferred message holds, the one held for the longest first.

    ``queue``: its name; default: all. ``most``: the most ordered channels that are looked at. ``using``: database
    alias; default: the queue's.
    """
    rows = call(alias(using), SQL, (optional_text(queue, "queue"), most))
    return [HeldChannel(*with_durations(row, 4)) for row in rows]
