"""Set queues, channels and limits, while workers run."""

from __future__ import annotations

from argparse import BooleanOptionalAction
from collections.abc import Callable
from functools import partial
from typing import Any, get_args

from django.core.management.base import CommandError

import django_pgqueue as pgqueue
from django_pgqueue.limits import rate_text
from django_pgqueue.management.cli.options import (
    CONCURRENCY,
    FORGIVE,
    NAME,
    OF_QUEUE,
    RATE,
    option,
    or_none,
    positive,
    retention,
    setting,
)
from django_pgqueue.management.cli.verbs import VerbRun, verb
from django_pgqueue.models import Channel, Queue
from django_pgqueue.models.queue import Fairness
from django_pgqueue.outcomes import KEEP, Archive
from django_pgqueue.sql.call import call

HANDLERS = """
SELECT h.handler FROM pgqueue_limit_handler AS h JOIN pgqueue_limit AS l ON l.id = h.limit_id
WHERE l.name = %s ORDER BY h.handler
"""


def change(run: VerbRun, names: tuple[str, ...], before: dict[str, Any] | None, act: Callable[..., Any]) -> None:
    """Change the settings that are given, and answer with the old and the new value of each.

    ``before``: the present values of all; None if it is made now. ``act``: takes the new ones. Raises CommandError if
    no setting is given of what exists.
    """
    given = vars(run.given)
    after = {name: given[name] for name in names if given[name] is not KEEP}
    forgive: bool = run.given.forgive
    if not (after or forgive or before is None):
        raise CommandError("Name at least one setting, such as --max-concurrency 5; --help lists them.")
    was = before and {name: before[name] for name in after}
    changes = [f"{name} {value_text(was[name]) if was else '-'} → {value_text(after[name])}" for name in after]
    if not run.dry_run:
        act(**after, forgive=forgive, using=run.using)
    text = ", ".join(changes + ["its debt is forgiven"] * forgive) or "made, without limits"
    run.answer(f"{run.subject}: {text}", **run.names, before=was, after=after, **({"forgive": True} if forgive else {}))


def present(row: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Return these settings of a row, the rate in words."""
    return {
        name: rate_text(row.release_interval, row.release_burst) if name == "rate" else getattr(row, name)
        for name in names
    }


def value_text(value: Any) -> str:
    """Return a setting as text: the names of a list with commas."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return "none" if value is None or value == [] else ", ".join(value) if isinstance(value, list) else str(value)


QUEUE_NAMES = (
    "archive", "retention", "dead_letter_retention", "max_concurrency", "rate", "fairness", "max_share", "events"
)  # fmt: skip


@verb(
    "set queue", "Set the limits of a queue, and what is kept of its messages, and for how long.",
    "mails --max-concurrency 20 --archive outcome", NAME,
    setting("--archive", choices=get_args(Archive),
            help="what the archive keeps of its messages, unless their channel or the call has its own setting"),
    setting("--retention", type=or_none(retention), metavar="DURATION",
            help="how long the archive keeps its messages, such as 30d; none: as the settings say"),
    setting("--dead-letter-retention", type=or_none(retention), metavar="DURATION",
            help="how long its dead letters are kept; none: as the settings say"),
    CONCURRENCY, RATE,
    setting("--fairness", choices=Fairness.values,
            help="turns: round robin; share: the same, for channels below their share of the leases"),
    setting("--max-share", type=or_none(float), metavar="PART",
            help="the part of the workers' slots that one channel may hold, above 0 and up to 1; none lifts the limit"),
    setting("--events", action=BooleanOptionalAction, help="whether PostgreSQL notifies listeners of each change"),
    FORGIVE, changes=True,
)  # fmt: skip
def set_queue(run: VerbRun) -> None:
    row = run.require().first() or Queue(name=run.given.name)
    change(run, QUEUE_NAMES, present(row, QUEUE_NAMES), partial(pgqueue.queue_set, run.given.name))


CHANNEL_NAMES = (
    "max_concurrency", "max_size", "full_policy", "rate", "weight", "archive", "ordered", "on_dead"
)  # fmt: skip


@verb(
    "set channel", "Set the limits of a channel, from the next dequeue on. It is made if it does not exist.",
    "acme --queue mails --max-concurrency 5", NAME, OF_QUEUE, CONCURRENCY, RATE,
    setting("--max-size", type=or_none(positive), metavar="N",
            help="live messages that the channel may hold; none lifts the limit"),
    setting("--full-policy", choices=Channel.FullPolicy.values, help="what happens to a message that does not fit"),
    setting("--weight", type=positive, metavar="N", help="messages in a turn, 1 to 1,000"),
    setting("--archive", choices=[*get_args(Archive), "queue"],
            help="what the archive keeps; queue: the setting of the queue"),
    setting("--ordered", action=BooleanOptionalAction,
            help="strictly one after the other, through retries; it sets --max-concurrency to 1"),
    setting("--on-dead", choices=Channel.OnDead.values, help="what an ordered channel does at a dead letter"),
    FORGIVE, changes=True,
)  # fmt: skip
def set_channel(run: VerbRun) -> None:
    if run.given.archive == "queue":
        run.given.archive = None
    row = run.rows().first()
    act = partial(pgqueue.channel_set, channel=run.given.name, queue=run.given.queue)
    change(run, CHANNEL_NAMES, row and present(row, CHANNEL_NAMES), act)


LIMIT_NAMES = ("max_concurrency", "max_cost", "rate", "per")


@verb(
    "set limit", "Set a shared limit, from the next dequeue on. It is made if it does not exist.",
    "stripe --max-concurrency 20 --rate '100/s burst 50'", NAME, CONCURRENCY,
    setting("--max-cost", type=or_none(positive), metavar="N",
            help="the sum of the costs of leased messages; none lifts it"),
    RATE,
    setting("--per", type=or_none(str), metavar="channel",
            help="channel: each channel has the limit for itself; none: all channels share it"),
    option("--handler", action="append", dest="handlers", default=None, metavar="NAME",
           help="all messages of this handler have the limit; repeatable; replaces those of before; none: no handler"),
    FORGIVE, changes=True,
)  # fmt: skip
def set_limit(run: VerbRun) -> None:
    given, row = run.given, run.rows().first()
    given.handlers = KEEP if given.handlers is None else sorted(set(given.handlers) - {"none"})
    handlers = [handler for (handler,) in call(run.using, HANDLERS, (given.name,))]
    before = row and {**present(row, LIMIT_NAMES), "handlers": handlers}
    change(run, (*LIMIT_NAMES, "handlers"), before, partial(pgqueue.limit_set, given.name))
