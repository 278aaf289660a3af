"""schedule_fire: enqueue the due ticks of a schedule, each once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django_pgqueue.conf import settings
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.lifecycle.enqueue_bind import retry_policy
from django_pgqueue.sql.call import call

SQL = """
SELECT tick_at, message_id, outcome, error FROM pgqueue_schedule_fire(
    %s::bigint, %s::bigint, %s::timestamptz[], %s::timestamptz, %s::integer, %s::interval, %s::float8,
    %s::interval, %s::boolean)
"""


@dataclass(frozen=True, slots=True)
class Fired:
    """Report one tick. ``message_id``: None unless ``outcome`` is ``created`` or ``duplicate``. ``error``: why it was
    ``refused``."""

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

    ``schedule_id``: the schedule. ``version``: the version of its row that the ticks were computed from. ``ticks``: the
    moments that are due (aware). ``next_fire_at``: the next one. ``handler``: the name whose retry policy applies.
    ``using``: database alias; default: the queue's.

    Returns one Fired for each tick; none if the row has another version by now. Raises ChannelBusy.
    """
    params = (schedule_id, version, list(ticks), next_fire_at, *retry_policy(handler), settings.AUTO_CREATE_CHANNELS)
    return [Fired(*row) for row in call(alias(using), SQL, params)]
