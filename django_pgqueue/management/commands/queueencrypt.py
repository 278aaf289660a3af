from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from django_pgqueue import codecs
from django_pgqueue.exceptions import CodecUnavailable
from django_pgqueue.lifecycle.encode_anew import TABLES, count_leased, encode_anew
from django_pgqueue.management.database import queue_database

MOST_SHOWN = 10


class Command(BaseCommand):
    help = (
        "Encrypts waiting messages, dead letters and schedules anew with the first key of PAYLOAD_KEYS, while the "
        "queue works, so that an old key can be removed. Rows that are not encrypted stay as they are. Run it as the "
        "owner of the tables; if it was interrupted, run it again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--batch", type=int, default=200, metavar="N", help="rows of each transaction (default: 200)"
        )
        parser.add_argument("--database", help="alias of the queue's database (default: as enqueue does)")

    def handle(self, *, batch: int, database: str | None, **options: Any) -> None:
        using = queue_database(database)
        if codecs.current() is None:
            raise CommandError("PAYLOAD_CODEC is not set, so there is nothing to encrypt with.")
        if batch < 1:
            raise CommandError(f"--batch is a number from 1 on, not {batch}.")
        failed = False
        for kind in TABLES:
            encoded, undecodable = self.all_of(kind, batch, using)
            self.stdout.write(f"{kind}: {encoded:,} encrypted anew")
            if undecodable:
                failed = True
                ids = ", ".join(map(str, undecodable[:MOST_SHOWN])) + (", …" if len(undecodable) > MOST_SHOWN else "")
                self.stderr.write(f"{kind}: {len(undecodable):,} cannot be decrypted with the keys of now: {ids}")
        if leased := count_leased(using):
            self.stdout.write(
                f"{leased:,} messages are leased, and were left out: run the command again when they are settled."
            )
        if failed:
            raise CommandError("Some rows stay as they are. Bring their key back, behind the others, and run it again.")

    def all_of(self, kind: str, batch: int, using: str) -> tuple[int, list[int]]:
        """Encrypt all rows of a table anew. Returns how many, and the ids of those that no key decrypts."""
        encoded, undecodable, after = 0, list[int](), 0
        try:
            while (done := encode_anew(kind, after=after, limit=batch, using=using)) is not None:
                encoded, after = encoded + done.encoded, done.last_id
                undecodable += done.undecodable
        except CodecUnavailable as error:
            raise CommandError(f"{error.message}. {error.hint}\n{kind}: {encoded:,} were encrypted anew.") from error
        return encoded, undecodable
