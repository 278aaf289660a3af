"""Fire, run and prune schedules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django_pgqueue.conf import settings
from django_pgqueue.delivery import Enqueued
from django_pgqueue.lifecycle.arguments import checked_text
from django_pgqueue.lifecycle.new_messages import retry_policy
from django_pgqueue.sql.call import ask, call

SCHEDULE_FIRE = """
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
    return [Fired(*row) for row in call(using, SCHEDULE_FIRE, params)]


SCHEDULE_RUN = """
SELECT id, outcome, refusal FROM pgqueue_schedule_run(
    %s::text, %s::integer, %s::interval, %s::float8, %s::interval, %s::boolean, %s::interval)
"""
HANDLER_OF_SCHEDULE = "SELECT handler FROM pgqueue_schedule WHERE name = %s::text"


def schedule_run(name: str, *, using: str | None = None) -> Enqueued:
    """Enqueue the message of a schedule now, in the caller's transaction. Its next time stays as it is.

    ``name``: the schedule's; it may be disabled. ``using``: database alias; default: the queue's.

    Returns the message's id and outcome. Raises ScheduleNotFound, and what :func:`enqueue` raises.
    """
    handler = call(using, HANDLER_OF_SCHEDULE, (checked_text(name, "name"),))
    policy = retry_policy(handler[0][0] if handler else name)
    params = (name, *policy, settings.AUTO_CREATE_CHANNELS, settings.ENQUEUE_WAIT)
    return Enqueued(*ask(using, SCHEDULE_RUN, params)[0])


def schedule_prune(*, using: str | None = None) -> int:
    """Delete ticks and undeclared schedules that are older than the setting SCHEDULE_RETENTION. Returns the number of
    ticks."""
    [(ticks,)] = call(using, "SELECT pgqueue_schedule_prune(%s::interval)", (settings.SCHEDULE_RETENTION,))
    return int(ticks)
