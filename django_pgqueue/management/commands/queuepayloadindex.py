from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error, connections

from django_pgqueue.management.database import queue_database
from django_pgqueue.sql import payload_index


class Command(BaseCommand):
    help = (
        "Creates or removes the indexes that the search of payloads in the admin needs (payload.customer=42), while "
        "the queue works. Run it as the owner of the tables; if it was interrupted, run it again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "table", nargs="+", choices=payload_index.TABLES, help="the tables whose payloads are searched; one or more"
        )
        parser.add_argument("--drop", action="store_true", help="remove the index")
        parser.add_argument("--database", help="alias of the queue's database (default: as enqueue does)")

    def handle(self, *, table: list[str], drop: bool, database: str | None, **options: Any) -> None:
        using = queue_database(database)
        if connections[using].in_atomic_block:
            raise CommandError("The command cannot run inside of a transaction: CREATE INDEX CONCURRENTLY forbids it.")
        try:
            for name in table:
                # Run one by one: the next statement depends on the result of the one before.
                for statement in (
                    payload_index.drop_statements(name) if drop else payload_index.create_statements(name, using)
                ):
                    self.stdout.write(f"{statement};")
                    with connections[using].schema_editor(atomic=False) as editor:
                        editor.execute(statement, params=None)
                self.stdout.write(f"{name}: payloads can{'not' if drop else ''} be searched now.")
        except Error as error:
            text = f"The database {using!r} refuses: {str(error).strip()}\nNothing is lost: run the command again."
            raise CommandError(text) from error
