"""Report the state of queues, channels, limits and messages, and explain why something does not run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from django_pgqueue.conf import settings
from django_pgqueue.jsonb import from_json
from django_pgqueue.lifecycle.arguments import checked_text, id_of, optional_text
from django_pgqueue.sql.call import ask, call
from django_pgqueue.sql.values import with_durations

MOST_COUNTED_ROWS = 10_000


class AsJson:
    """Write the fields of a figure as JSON: an ``oldest_age`` becomes ``oldest_seconds``, a time is in ISO 8601."""

    __slots__ = ()

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a dict."""
        written: dict[str, Any] = {}
        for name, value in asdict(self).items():  # type: ignore[call-overload]  # each subclass is a dataclass
            if name == "age" or name.endswith("_age"):
                written[f"{name.removesuffix('age')}seconds"] = None if value is None else value.total_seconds()
            else:
                written[name] = value.isoformat() if isinstance(value, datetime) else value
        return written


HEALTH = """
SELECT queue, ready, leased, scheduled, waiting_for_limit, waiting_for_order_key, dead,
    extract(epoch FROM oldest), oldest_channel, workers, paused, complete, unknown_handler,
    blocked
FROM pgqueue_health(%s::text, %s::integer, %s::interval)
"""


@dataclass(frozen=True, slots=True)
class QueueHealth(AsJson):
    """Report one queue: its messages by state, its oldest ready message, and its workers.

    ``waiting_for_limit``: messages that wait for a full shared limit; ``waiting_for_order_key``: those that wait for
    the message before them of their order key; ``scheduled``: those that wait for their time. ``oldest_age``: how long
    ago the oldest ready message became due; ``oldest_channel``: its channel. ``workers``: the live ones that serve the
    queue. ``complete``: False if there are more messages than were counted; the numbers are then lower bounds.
    ``unknown_handler``: scheduled messages that wait for a worker that has their handler; ``blocked``: those that wait
    for other messages.
    """

    queue: str
    ready: int
    leased: int
    scheduled: int
    waiting_for_limit: int
    waiting_for_order_key: int
    dead: int
    oldest_age: timedelta | None
    oldest_channel: str | None
    workers: int
    paused: bool
    complete: bool
    unknown_handler: int = 0
    blocked: int = 0


def health(queue: str | None = None, *, most: int = MOST_COUNTED_ROWS, using: str | None = None) -> list[QueueHealth]:
    """Return the health of all queues, or of one.

    ``queue``: its name; default: all. ``most``: in each queue, the most messages of one state that are counted, and the
    most channels that are examined. ``using``: database alias; default: the queue's. Workers that were silent for
    longer than the setting LEASE do not count.
    """
    rows = call(using, HEALTH, (queue, most, settings.LEASE))
    return [QueueHealth(*with_durations(row, 7)) for row in rows]


HELD_CHANNELS = """
SELECT h.queue, h.channel, h.message_id, h.handler, extract(epoch FROM clock_timestamp() - h.since),
    h.attempts, h.max_attempts, h.held_until, h.behind
FROM pgqueue_held_channels(%s::text, %s::integer) AS h
"""


@dataclass(frozen=True, slots=True)
class HeldChannel(AsJson):
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


def held_channels(
    queue: str | None = None, *, most: int = MOST_COUNTED_ROWS, using: str | None = None
) -> list[HeldChannel]:
    """Return the ordered channels that a failing or deferred message holds, the one held for the longest first.

    ``queue``: its name; default: all. ``most``: the most ordered channels that are looked at. ``using``: database
    alias; default: the queue's.
    """
    rows = call(using, HELD_CHANNELS, (optional_text(queue, "queue"), most))
    return [HeldChannel(*with_durations(row, 4)) for row in rows]


LIMIT_HEALTH = """
SELECT kind, name, places, max_concurrency, cost, max_cost, tokens, waiting, extract(epoch FROM oldest), why,
    complete
FROM pgqueue_limit_health(%s::integer)
"""


@dataclass(frozen=True, slots=True)
class LimitHealth(AsJson):
    """Report one limit: what it has given out, and the messages that it holds up.

    ``kind``: shared, and the name is that of a shared limit; or queue, and the limit is that of a whole queue.
    ``places``: leased messages that count; ``cost``: what they cost, None for a queue. ``tokens``: in the bucket of the
    rate, negative while it has debts, None without a rate. A limit for each channel has None in these three, and its
    ``why`` is that of the channel that has waited longest. ``waiting``: messages that wait for it; ``oldest_age``: how
    long the oldest of them has been due. ``why``: paused, full or rate; None: it has room. ``complete``: False if there
    are more messages than were counted; the numbers are then lower bounds.
    """

    kind: Literal["shared", "queue"]
    name: str
    places: int | None
    max_concurrency: int | None
    cost: int | None
    max_cost: int | None
    tokens: float | None
    waiting: int
    oldest_age: timedelta | None
    why: Literal["paused", "full", "rate"] | None
    complete: bool


def limit_health(*, most: int = MOST_COUNTED_ROWS, using: str | None = None) -> list[LimitHealth]:
    """Return the use of all shared limits, and of the limits of whole queues.

    ``most``: the most messages that are counted for each limit. ``using``: database alias; default: the queue's.
    """
    return [LimitHealth(*with_durations(row, 8)) for row in call(using, LIMIT_HEALTH, (most,))]


METRICS = """
SELECT queue, channel, ready, leased, scheduled, waiting_for_limit, waiting_for_order_key, dead,
    extract(epoch FROM oldest), extract(epoch FROM newest), total,
    blocked
FROM pgqueue_metrics(%s::text, %s::text, %s::boolean)
"""


@dataclass(frozen=True, slots=True)
class ChannelMetrics:
    """Report one channel: its messages by state, and the ages of its oldest and newest ready messages.

    ``waiting_for_limit``: messages that wait for a full shared limit; ``waiting_for_order_key``: those that wait for
    the message before them of their order key; ``scheduled``: those that wait for their time. ``total``: messages ever
    enqueued; None if it was not asked for. ``blocked``: those of the scheduled ones that wait for other messages.
    """

    queue: str
    channel: str
    ready: int
    leased: int
    scheduled: int
    waiting_for_limit: int
    waiting_for_order_key: int
    dead: int
    oldest_age: timedelta | None
    newest_age: timedelta | None
    total: int | None
    blocked: int = 0


def metrics(
    queue: str | None = None, *, channel: str | None = None, totals: bool = True, using: str | None = None
) -> list[ChannelMetrics]:
    """Return the metrics of all channels, or of one queue or channel.

    ``queue``, ``channel``: their names; default: all. ``totals``: count the messages that were ever enqueued, which
    reads the archive: leave it out in frequent monitors. ``using``: database alias; default: the queue's.
    """
    return [
        ChannelMetrics(*with_durations(row, 8, 9))
        for row in call(using, METRICS, (optional_text(queue, "queue"), optional_text(channel, "channel"), totals))
    ]


TRAFFIC = """
SELECT extract(epoch FROM clock_timestamp())::float,
    pg_stat_get_tuples_inserted(to_regclass('pgqueue_message')),
    (SELECT coalesce(sum(pg_stat_get_tuples_inserted(c.oid)), 0)::bigint
    FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
    WHERE i.inhparent = to_regclass('pgqueue_archived_message')),
    pg_stat_get_tuples_inserted(to_regclass('pgqueue_dead_letter'))
"""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Count the rows that were ever written, including those of transactions that were rolled back.

    ``at``: seconds since the epoch, by the clock of the database. The server's statistics are some seconds late, and
    start again after a crash.
    """

    at: float
    enqueued: int
    archived: int
    dead: int

    def since(self, before: Traffic) -> dict[str, float]:
        """Return messages per second since ``before``, by the names ``enqueued``, ``archived`` and ``dead``."""
        seconds = max(self.at - before.at, 0.001)
        return {
            name: max(0, getattr(self, name) - getattr(before, name)) / seconds
            for name in ("enqueued", "archived", "dead")
        }


def traffic(*, using: str | None = None) -> Traffic:
    """Return how many messages were ever enqueued, archived and dead-lettered, in all queues of the database.

    ``using``: database alias; default: the queue's. :meth:`Traffic.since` computes rates from two readings.
    """
    return Traffic(*call(using, TRAFFIC)[0])


EXPLAIN_MESSAGE = "SELECT code, sentence, facts FROM pgqueue_explain_message(%s::bigint, %s::interval)"
EXPLAIN_CHANNEL = "SELECT code, sentence, facts, refusal FROM pgqueue_explain_channel(%s::text, %s::text, %s::interval)"


@dataclass(frozen=True, slots=True)
class Reason:
    """Give one reason. ``code``: a fixed word for programs. ``sentence``: the reason in English. ``facts``: the values
    in the sentence, as JSON; times are texts in ISO 8601."""

    code: str
    sentence: str
    facts: dict[str, Any]


def explain_message(id: int, *, using: str | None = None) -> list[Reason]:  # noqa: A002  (as everywhere else)
    """Return why a message is not running, or how it ended, the most decisive reason first.

    ``id``: the message. ``using``: database alias; default: the queue's. A message that does not exist has the code
    ``unknown``. A worker that was silent for longer than the setting LEASE counts as dead.
    """
    return _reasons(call(using, EXPLAIN_MESSAGE, (id_of(id), settings.LEASE)))


def explain_channel(*, channel: str, queue: str = "default", using: str | None = None) -> list[Reason]:
    """Return why the messages of a channel are not running: what blocks them, then the channel's place in the line.

    ``channel``, ``queue``: the channel's name, and the queue that it belongs to. ``using``: database alias; default:
    the queue's.

    Raises ChannelNotFound.
    """
    return _reasons(
        ask(using, EXPLAIN_CHANNEL, (checked_text(queue, "queue"), checked_text(channel, "channel"), settings.LEASE))
    )


def _reasons(rows: list[tuple[Any, ...]]) -> list[Reason]:
    return [Reason(code, sentence, from_json(facts)) for code, sentence, facts in rows]
