"""Set, pause, resume, purge, release and erase a channel."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from django.db import transaction

from django_pgqueue.exceptions import ChannelBusy
from django_pgqueue.jsonb import from_json
from django_pgqueue.lifecycle.arguments import boolean, channel_names, checked_whole, pause_of, settings_as_json
from django_pgqueue.outcomes import KEEP, Archive, Keep
from django_pgqueue.sql.call import alias, ask, call

CHANNEL_SET = "SELECT id, refusal FROM pgqueue_channel_set(%s::text, %s::text, %s::jsonb)"


def channel_set(
    *,
    channel: str,
    queue: str = "default",
    max_concurrency: int | Keep | None = KEEP,
    max_size: int | Keep | None = KEEP,
    full_policy: Literal["error", "drop", "drop_oldest", "replace"] | Keep = KEEP,
    rate: str | Keep | None = KEEP,
    release_interval: timedelta | Keep | None = KEEP,
    release_burst: int | Keep = KEEP,
    weight: int | Keep = KEEP,
    archive: Archive | Keep | None = KEEP,
    ordered: bool | Keep = KEEP,
    on_dead: Literal["continue", "pause"] | Keep = KEEP,
    context: Mapping[str, Any] | Keep = KEEP,
    forgive: bool = False,
    using: str | None = None,
) -> int:
    """Create a channel, or change the limits and the context that are given of an existing one.

    A limit that is not given stays as it is; None lifts it. Each limit holds from the next dequeue on, for all workers
    together. If a released channel of that name has drained, it is replaced by a new one without the old limits,
    context and pause. While it drains, ChannelReleased is raised.

    ``channel``, ``queue``: the channel's name, and the queue that it belongs to. ``max_concurrency``: messages that may
    be leased at the same time. ``max_size``: live messages that the channel may hold. ``full_policy``: what happens to
    a message that does not fit: ``error`` refuses it, ``drop`` leaves it out, ``drop_oldest`` drops those that have
    waited the longest instead, ``replace`` drops all that wait.

    ``rate``: deliveries in a time, such as ``"10/m"`` or ``"5/s burst 20"``; it sets both ``release_interval``, the
    shortest time from one delivery to the next (a timedelta), and ``release_burst``, the deliveries at once after a
    quiet time (default 1). ``weight``: messages of one turn in the line of its queue, 1 to 1,000.

    ``archive``: what the archive keeps of its messages: ``full``, ``outcome`` (no payload, no result) or ``none``; with
    None the setting of the queue applies, see :func:`django_pgqueue.queue_set`. A dead letter is always kept whole.

    ``ordered``: True delivers the messages strictly one after the other. A message that fails holds the channel until
    it is completed, cancelled or a dead letter; ``max_concurrency`` becomes 1, and stays 1 after ``ordered=False``.
    ``on_dead``: what an ordered channel does at a dead letter: ``continue`` with the next message, or ``pause`` until
    the dead letter is redriven or the channel is resumed.

    ``forgive``: True ends the debt of the rate, which messages have left that cost more than its burst.

    ``context``: a JSON object for handlers and middleware, such as the tenant. It replaces the context of the channel,
    and holds for messages that are dequeued afterwards. ``using``: database alias; default: the queue's.

    Returns the id of the channel. Raises ChannelReleased, InvalidMessage.
    """
    limits = settings_as_json(
        rate=rate, max_concurrency=max_concurrency, max_size=max_size, full_policy=full_policy,
        release_interval=release_interval, release_burst=release_burst, weight=weight, archive=archive,
        ordered=ordered, on_dead=on_dead, context=context, forgive=forgive or KEEP,
    )  # fmt: skip
    return int(ask(using, CHANNEL_SET, (*channel_names(queue, channel), limits))[0][0])


CHANNEL_PAUSE = "SELECT outcome, refusal FROM pgqueue_channel_pause(%s::text, %s::text, %s::text, %s::timestamptz)"


def channel_pause(
    *,
    channel: str,
    queue: str = "default",
    reason: str = "",
    until: datetime | None = None,
    using: str | None = None,
) -> None:
    """Stop the deliveries of one channel. Enqueue goes on, and messages that run now are not interrupted.

    ``channel``, ``queue``: the channel's name, and the queue that it belongs to. ``reason``: shown in the admin, by
    explain and by the doctor. ``until``: an aware datetime at which the sweep resumes the channel; without it the
    pause lasts until :func:`channel_resume`. ``using``: database alias; default: the queue's.

    Raises ChannelNotFound, and InvalidMessage for a time in the past.
    """
    ask(using, CHANNEL_PAUSE, (*channel_names(queue, channel), *pause_of(reason, until)))


def channel_resume(*, channel: str, queue: str = "default", using: str | None = None) -> None:
    """End the pause of a channel, so that its messages are delivered again.

    ``channel``, ``queue``: the channel's name, and the queue that it belongs to. ``using``: database alias; default:
    the queue's.

    Raises ChannelNotFound.
    """
    sql = "SELECT outcome, refusal FROM pgqueue_channel_resume(%s::text, %s::text)"
    ask(using, sql, channel_names(queue, channel))


CHANNEL_PURGE = "SELECT messages, refusal FROM pgqueue_channel_purge(%s::text, %s::text, %s::integer)"


def channel_purge(*, channel: str, queue: str = "default", limit: int = 10_000, using: str | None = None) -> int:
    """Move ready and scheduled messages of a channel to the archive as ``purged``. Returns how many: call again until
    0.

    ``channel``, ``queue``: the channel's name, and the queue that it belongs to. ``limit``: the most messages of one
    call. ``using``: database alias; default: the queue's.

    Raises ChannelNotFound.
    """
    [(purged,)] = ask(using, CHANNEL_PURGE, (*channel_names(queue, channel), checked_whole(limit, "limit")))
    return int(purged)


CHANNEL_RELEASE = "SELECT outcome, refusal FROM pgqueue_channel_release(%s::text, %s::text)"


def channel_release(*, channel: str, queue: str = "default", using: str | None = None) -> None:
    """Release a channel: it refuses new messages, delivers those that it has without limits, and is then removed.

    ``channel``, ``queue``: the channel's name, and the queue that it belongs to. ``using``: database alias; default:
    the queue's. An empty channel is removed when the release has committed, unless another open transaction may still
    bring a message; then a sweep removes it.

    Raises ChannelNotFound.
    """
    database = alias(using)
    ask(database, CHANNEL_RELEASE, channel_names(queue, channel))
    transaction.on_commit(lambda: call(database, "SELECT pgqueue_remove_released()"), using=database, robust=True)


CHANNEL_ERASE = """
SELECT removed, leased, reached, outcome, refusal
FROM pgqueue_channel_erase(%s::text, %s::text, %s::boolean, %s::boolean, %s::jsonb)
"""
ROUNDS = 3
"""How often an erase reads the tables again because rows came while it ran."""
BUSY_PAUSE_SECONDS = 0.1
BUSY_TRIES = 50


@dataclass(frozen=True, slots=True)
class ChannelErased:
    """Report an erase. ``erased``, ``left``: the number of rows by table, without ``pgqueue_``; a table without rows is
    not named.

    ``leased``: messages that are left because workers hold them. After a dry run, ``erased`` and ``left`` say what an
    erase would do.
    """

    queue: str
    channel: str
    dry_run: bool
    erased: dict[str, int]
    left: dict[str, int]
    leased: int

    @property
    def done(self) -> bool:
        """Return whether the database holds nothing of the channel now, or would hold nothing after a dry run."""
        return not self.left


def channel_erase(
    *, queue: str, channel: str, force: bool = False, dry_run: bool = False, using: str | None = None
) -> ChannelErased:
    """Erase a tenant: remove all rows of a channel from the database. Returns the number of rows by table.

    ``queue``, ``channel``: the names; no application may enqueue to the channel any more. ``force``: remove messages
    under lease, too, whose holders can then not settle them. Without it they are left, and the channel stays paused:
    call again when they have ended. ``dry_run``: count the rows, and change nothing. ``using``: database alias;
    default: the queue's.

    Live messages, archive, dead letters, schedules, figures and the channel itself are removed, also from the tables of
    the pipeline, but not from its lake. Call it outside of a transaction: it works in many short ones, and can be
    repeated after an interruption. At the end it reads all tables again, and reports the rows that are left.

    Raises ChannelBusy when another transaction holds locks for more than 5 seconds, and InvalidMessage.
    """
    names = channel_names(queue, channel)
    boolean(force, "force")
    database = alias(using)
    if boolean(dry_run, "dry_run"):
        erased, leased = walk(*names, force, True, using=database)
        left = Counter(message=leased, channel=erased.pop("channel", 0)) if leased else Counter[str]()
        return ChannelErased(*names, True, present(erased), present(left), leased)
    erased, channels = Counter(), 0
    for _round in range(ROUNDS):
        removed, _ = walk(*names, force, False, using=database)
        channels = max(channels, removed.pop("channel", 0))
        erased += removed
        call(database, "SELECT pgqueue_remove_released()")
        left, leased = walk(*names, False, True, using=database)
        if not left.total() or leased:
            break
    left["message"] += leased
    erased["channel"] = channels - left["channel"]
    return ChannelErased(*names, False, present(erased), present(left), leased)


def walk(queue: str, channel: str, force: bool, dry_run: bool, *, using: str) -> tuple[Counter[str], int]:
    """Go through all tables once. Returns the rows by table, and the messages that stay because of their lease.

    Raises ChannelBusy after BUSY_TRIES calls in a row that found locks.
    """
    rows: Counter[str] = Counter()
    reached, leased, tries = "{}", 0, 0
    while True:
        [(removed, held, reached, outcome)] = ask(using, CHANNEL_ERASE, (queue, channel, force, dry_run, reached))
        rows.update(from_json(removed))
        leased = held or leased
        if outcome == "erased":
            return rows, leased
        tries = tries + 1 if outcome == "busy" else 0
        if tries == BUSY_TRIES:
            raise ChannelBusy(
                f'channel "{channel}" of queue "{queue}" is not erased yet: other transactions hold locks',
                hint="Erase it again when they have ended; the rows that are gone stay gone.",
            )
        if tries:
            time.sleep(BUSY_PAUSE_SECONDS)


def present(rows: Counter[str]) -> dict[str, int]:
    """Return the tables that have rows, sorted by name."""
    return {table: count for table, count in sorted(rows.items()) if count > 0}
