"""channel_erase: remove everything that the database holds of a tenant."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

from django_pgqueue.exceptions import ChannelBusy
from django_pgqueue.jsonb import from_json
from django_pgqueue.lifecycle.arguments import boolean, checked_text
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import ask, call

SQL = """
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
    names = checked_text(queue, "queue"), checked_text(channel, "channel")
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
        [(removed, held, reached, outcome)] = ask(using, SQL, (queue, channel, force, dry_run, reached))
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
