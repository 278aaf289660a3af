from __future__ import annotations

from argparse import BooleanOptionalAction
from typing import Any, get_args

from django.core.management.base import CommandError, CommandParser

from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.lifecycle.channel_purge import channel_purge
from django_pgqueue.lifecycle.channel_release import channel_release
from django_pgqueue.lifecycle.channel_set import channel_set
from django_pgqueue.management.acting import (
    FORGIVEN,
    ActingCommand,
    add_forgive,
    at_least_one,
    count_or_none,
    errors_as_command_errors,
    seconds_or_none,
)
from django_pgqueue.management.database import queue_database
from django_pgqueue.models import Channel, Message
from django_pgqueue.outcomes import Archive
from django_pgqueue.rates import parse_rate

LIMITS = (
    "max_concurrency", "max_size", "full_policy", "release_interval", "release_burst", "weight", "archive", "ordered",
    "on_dead",
)  # fmt: skip
RATE = ("release_interval", "release_burst")
# The word that lifts a limit.
LIFTED = dict.fromkeys(LIMITS, "none") | {"archive": "queue"}
BATCH_MESSAGES = 10_000


def rate_settings(given: dict[str, Any]) -> tuple[Any, int]:
    """Return the interval and the burst of --rate. Raises CommandError."""
    if any(given[limit] is not None for limit in RATE):
        raise CommandError("--rate replaces --release-interval and --release-burst: give --rate, or those two.")
    try:
        return ("none", 1) if given["rate"] == "none" else parse_rate(given["rate"])
    except InvalidMessage as error:
        raise CommandError(str(error)) from None


class Command(ActingCommand):
    help = "Sets the limits of a channel while workers run, purges the messages that wait in it, or releases it."

    def add_own(self, parser: CommandParser) -> None:
        parser.add_argument(
            "action",
            choices=["set", "purge", "release"],
            help="set: change limits; purge: archive the messages that wait; release: drain and remove the channel",
        )
        parser.add_argument("name", help="the channel; set creates it if it does not exist")
        parser.add_argument("--queue", default="default", help="the queue of the channel (default: default)")
        parser.add_argument(
            "--max-concurrency",
            type=count_or_none,
            metavar="N",
            help="messages that may be leased at the same time; none lifts the limit",
        )
        parser.add_argument(
            "--max-size",
            type=count_or_none,
            metavar="N",
            help="live messages that the channel may hold; none lifts the limit",
        )
        parser.add_argument(
            "--full-policy", choices=Channel.FullPolicy.values, help="what happens to a message that does not fit"
        )
        parser.add_argument("--rate", help="deliveries in a time, such as 10/m or '5/s burst 20'; none lifts the limit")
        parser.add_argument(
            "--release-interval",
            type=seconds_or_none,
            metavar="SECONDS",
            help="at most one delivery in this time; none lifts the limit",
        )
        parser.add_argument(
            "--release-burst", type=at_least_one, metavar="N", help="deliveries at once after a quiet time"
        )
        parser.add_argument("--weight", type=at_least_one, metavar="N", help="messages in a turn, 1 to 1,000")
        parser.add_argument(
            "--archive",
            choices=[*get_args(Archive), "queue"],
            help="what the archive keeps; queue: the setting of the queue",
        )
        parser.add_argument(
            "--ordered",
            action=BooleanOptionalAction,
            help="strictly one after the other, through retries; it sets --max-concurrency to 1",
        )
        parser.add_argument(
            "--on-dead", choices=Channel.OnDead.values, help="what an ordered channel does at a dead letter"
        )
        add_forgive(parser)

    def handle(
        self, *, action: str, name: str, queue: str, database: str | None, form: str, dry_run: bool, **given: Any
    ) -> None:
        using = queue_database(database)
        if given["rate"] is not None:
            given |= zip(RATE, rate_settings(given), strict=True)
        named = {limit: given[limit] for limit in LIMITS if given[limit] is not None}
        limits: dict[str, Any] = {limit: None if value == LIFTED[limit] else value for limit, value in named.items()}
        forgive: bool = given["forgive"]
        if action == "set" and not limits and not forgive:
            raise CommandError("Name at least one limit to set, such as --max-concurrency 5.")
        if action != "set" and (limits or forgive):
            raise CommandError(f"{action} takes no limits.")
        facts: dict[str, Any] = {"action": action, "queue": queue, "channel": name, "dry_run": dry_run}
        there = Channel.objects.using(using).filter(queue=queue, name=name)
        if dry_run and action != "set" and not there.exists():
            raise CommandError(f"There is no channel {name!r} in queue {queue!r}.")
        with errors_as_command_errors(using):
            if action == "set":
                before = there.values(*limits).first()
                changes = [f"{limit} {before[limit] if before else '-'} → {value}" for limit, value in limits.items()]
                text = f"{queue}/{name}: " + ", ".join(changes + FORGIVEN * forgive)
                facts |= {"before": before, "after": limits} | ({"forgive": True} if forgive else {})
                if not dry_run:
                    channel_set(channel=name, queue=queue, forgive=forgive, using=using, **limits)
            elif action == "release":
                text = f"{queue}/{name} {'would be' if dry_run else 'is'} released."
                if not dry_run:
                    channel_release(channel=name, queue=queue, using=using)
            else:
                facts["messages"] = (
                    channel_waiting_count(name, queue, using) if dry_run else purge_channel(name, queue, using)
                )
                text = f"{facts['messages']} {'would be purged' if dry_run else 'purged'}"
        self.answer(form, text, facts)


def channel_waiting_count(name: str, queue: str, using: str) -> int:
    """Return the number of messages that wait on the channel."""
    found = Message.objects.using(using).filter(channel__queue=queue, channel__name=name)
    return found.exclude(status=Message.Status.LEASED).count()


def purge_channel(name: str, queue: str, using: str) -> int:
    """Purge as many messages as wait at the beginning, because producers may be faster than a purge. Returns how
    many."""
    left, count = channel_waiting_count(name, queue, using), 0
    while True:
        batch = channel_purge(
            channel=name, queue=queue, limit=min(BATCH_MESSAGES, left - count) if count < left else 0, using=using
        )
        count += batch
        if batch == 0:
            return count
