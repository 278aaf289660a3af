"""schedule_fire: the ticks of a schedule that is due, once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django_pgqueue.conf import settings
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.lifecycle.enqueue import retry_policy
from django_pgqueue.sql.call import call

SQL = """
SELECT tick_at, message_id, outcome, error FROM pgqueue_schedule_fire(
    %s::bigint, %s::bigint, %s::timestamptz[], %s::timestamptz, %s::integer, %s::interval, %s::float8,
    %s::interval, %s::boolean)
"""


@dataclass(frozen=True, slots=True)
class Fired:
    """``message_id``: None if ``outcome`` is not ``created`` or ``duplicate``. ``error``: why it was ``refused``."""

    tick_at: datetime
    message_id: int | None
    outcome: str
    error: str


def schedule_fire(
    schedule_id: int,
    version: int,
    ticks: Sequence[datetime],
    next_fire_at: datetime,
    *,
    handler: str,
    using: str | None = None,
) -> list[Fired]:
    """Enqueue a message for each of the ticks, and set when the next is due.

    Returns what fired: nothing, if the row is no longer the ``version`` that the ticks were computed from. Raises
    ChannelBusy.
    """
    params = (schedule_id, version, list(ticks), next_fire_at, *retry_policy(handler), settings.AUTO_CREATE_CHANNELS)
    return [Fired(*row) for row in call(alias(using), SQL, params)]
