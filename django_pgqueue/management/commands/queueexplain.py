from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error

from django_pgqueue.exceptions import PgQueueError
from django_pgqueue.lifecycle.explain import explain_channel, explain_message
from django_pgqueue.lifecycle.queue_names import queue_names
from django_pgqueue.management.database import queue_database
from django_pgqueue.models import Channel
from django_pgqueue.redaction import printable

MOST_QUEUES = 20


class Command(BaseCommand):
    help = "Explains why a message or a channel is not running, or how the message ended."

    def add_arguments(self, parser: CommandParser) -> None:
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("--message", type=int, metavar="ID", help="a message, live or settled")
        what.add_argument("--channel", metavar="NAME", help="a channel")
        parser.add_argument("--queue", help="the queue of the channel (default: each that has one of this name)")
        parser.add_argument("--format", choices=["text", "json"], default="text", help="(default: text)")
        parser.add_argument("--database", help="alias of the queue's database (default: as enqueue does)")

    def handle(
        self,
        *,
        message: int | None,
        channel: str | None,
        queue: str | None,
        format: str,  # noqa: A002  (the name of the option)
        database: str | None,
        **options: Any,
    ) -> None:
        using = queue_database(database)
        try:
            if message is not None:
                found = {"": explain_message(message, using=using)}
            else:
                name = str(channel)
                queues = [queue] if queue is not None else queues_of(name, using)
                found = {each: explain_channel(channel=name, queue=each, using=using) for each in queues}
        except PgQueueError as error:
            raise CommandError(printable(str(error))) from error
        except Error as error:
            raise CommandError(f"The database {using!r} refuses: {str(error).strip()}") from error
        if format == "json":
            rows = [
                asdict(reason) | ({"queue": name} if name else {})
                for name, reasons in found.items()
                for reason in reasons
            ]
            self.stdout.write(json.dumps(rows, indent=2, ensure_ascii=False))
            return
        width = max((len(reason.code) for reasons in found.values() for reason in reasons), default=0)
        for name, reasons in found.items():
            if len(found) > 1:
                self.stdout.write(f"{printable(name)}/{printable(str(channel))}:")
            for reason in reasons:
                self.stdout.write(f"{reason.code:<{width}}  {printable(reason.sentence)}")


def queues_of(channel: str, using: str) -> list[str]:
    """Return the queues that have a channel of this name, MOST_QUEUES at most; the default one if none has."""
    found = Channel.objects.using(using).filter(name=channel, queue__in=queue_names(using=using))
    return list(found.order_by("queue").values_list("queue", flat=True)[:MOST_QUEUES]) or ["default"]
