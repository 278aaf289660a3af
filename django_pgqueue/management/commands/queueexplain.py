from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error

from django_pgqueue.exceptions import PgQueueError
from django_pgqueue.lifecycle.explain import explain_channel, explain_message
from django_pgqueue.management.database import queue_database
from django_pgqueue.redaction import printable


class Command(BaseCommand):
    help = "Explains why a message or a channel is not running, or how the message ended."

    def add_arguments(self, parser: CommandParser) -> None:
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("--message", type=int, metavar="ID", help="a message, live or settled")
        what.add_argument("--channel", metavar="NAME", help="a channel")
        parser.add_argument("--queue", default="default", help="the queue of the channel (default: default)")
        parser.add_argument("--format", choices=["text", "json"], default="text", help="(default: text)")
        parser.add_argument("--database", help="alias of the queue's database (default: as enqueue does)")

    def handle(
        self,
        *,
        message: int | None,
        channel: str | None,
        queue: str,
        format: str,  # noqa: A002  (the name of the option)
        database: str | None,
        **options: Any,
    ) -> None:
        using = queue_database(database)
        try:
            if message is not None:
                reasons = explain_message(message, using=using)
            else:
                reasons = explain_channel(channel=str(channel), queue=queue, using=using)
        except PgQueueError as error:
            raise CommandError(printable(str(error))) from error
        except Error as error:
            raise CommandError(f"The database {using!r} refuses: {str(error).strip()}") from error
        if format == "json":
            self.stdout.write(json.dumps([asdict(reason) for reason in reasons], indent=2, ensure_ascii=False))
            return
        width = max((len(reason.code) for reason in reasons), default=0)
        for reason in reasons:
            self.stdout.write(f"{reason.code:<{width}}  {printable(reason.sentence)}")
