from __future__ import annotations

from argparse import ArgumentTypeError
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error
from psycopg.errors import LockNotAvailable

from django_pgqueue.management.database import queue_database
from django_pgqueue.redaction import printable
from django_pgqueue.sql import durability
from django_pgqueue.sql.call import primary

LOST = """\
A CRASH OF THE SERVER LOSES ALL LIVE MESSAGES WITH UNLOGGED TABLES.
Each message that is ready, leased, scheduled or waits for a retry is lost without a trace, although its enqueue was
committed. Archive, dead letters, channels, queues, schedules and workers are kept.
A crash is also: one server process that is killed (kill -9, out of memory), a loss of power, an immediate shutdown.
A failover to a standby and a restore from a base backup lose the same. A clean restart loses nothing.
"""
COST = """\
Each table is locked while it is rewritten: enqueue, dequeue and settlements wait meanwhile. If that takes longer
than a lease lasts, leases expire and messages are delivered again.
"""


def seconds(text: str) -> float:
    """Return a number of seconds. Raises ArgumentTypeError unless it is positive, up to 3,600."""
    number = float(text)
    if not 0 < number <= 3600:
        raise ArgumentTypeError(f"{text} is not a number of seconds between 0 and 3600")
    return number


class Command(BaseCommand):
    help = (
        "Shows whether a crash of the server loses the live messages, or changes it: --unlogged makes their tables "
        "UNLOGGED, which is faster, and a crash empties them; --logged makes them durable again. Run it as the owner "
        "of the tables."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--unlogged", action="store_true", help="a crash may lose all live messages")
        what.add_argument("--logged", action="store_true", help="a crash loses nothing that was committed")
        parser.add_argument(
            "--yes", action="store_true", help="do it; without it, the command only prints what it would do"
        )
        parser.add_argument(
            "--lock-timeout", type=seconds, default=5.0, metavar="SECONDS",
            help="how long it waits for other sessions' locks of a table (default: %(default)g)",
        )  # fmt: skip
        parser.add_argument("--database", help="alias of the queue's database (default: as enqueue does)")

    def handle(
        self, *, unlogged: bool, logged: bool, yes: bool, lock_timeout: float, database: str | None, **options: Any
    ) -> None:
        using = queue_database(database)
        if yes and not (unlogged or logged):
            raise CommandError("--yes needs --unlogged or --logged.")
        try:
            found = durability.unlogged_by_table(using)
            if not (unlogged or logged):
                self.describe(found)
            elif not (tables := durability.pending_tables(found, unlogged=unlogged)):
                self.stdout.write(f"Nothing to do: the live tables are {word(unlogged=unlogged)}.")
            elif not yes:
                self.propose(using, tables, unlogged=unlogged)
            else:
                self.change(using, tables, unlogged=unlogged, lock_timeout=lock_timeout)
        except Error as error:
            raise CommandError(f"The database {using!r} refuses: {primary(error)}") from error

    def describe(self, found: dict[str, bool]) -> None:
        """Print the durability of each table, and what a crash loses. Raises CommandError if tables disagree."""
        for table in durability.LIVE:
            self.stdout.write(f"{table}: {word(unlogged=found[table])}")
        if found[durability.MESSAGE]:
            self.stdout.write("\n" + self.style.WARNING(LOST.rstrip()))
        elif durability.pending_tables(found, unlogged=False):
            raise CommandError(
                "Messages that survive a crash would wait for ever, because their lanes do not survive it. Run: "
                "manage.py queuedurability --logged --yes"
            )
        else:
            self.stdout.write("\nA crash of the server loses nothing that was committed.")

    def propose(self, using: str, tables: list[str], *, unlogged: bool) -> None:
        """Print what --yes would change."""
        sizes = durability.table_sizes(using, tables)
        self.stdout.write(f"These tables would become {word(unlogged=unlogged)}, one after the other:\n")
        for table in tables:
            self.stdout.write(f"  {table}: {megabytes(sizes[table])}")
        self.stdout.write("\n" + COST, ending="")
        if unlogged:
            self.stdout.write("\n" + self.style.WARNING(LOST.rstrip()))
        option = "--unlogged" if unlogged else "--logged"
        self.stdout.write(f"\nNothing was changed. To do it: manage.py queuedurability {option} --yes")

    def change(self, using: str, tables: list[str], *, unlogged: bool, lock_timeout: float) -> None:
        """Rewrite the tables, one after the other. Raises CommandError for one that cannot be changed."""
        for table in tables:
            try:
                held = durability.rewrite_table(using, table, unlogged=unlogged, lock_timeout=lock_timeout)
            except Error as error:
                raise CommandError(self.stopped(using, table, error)) from error
            self.stdout.write(f"{table}: {word(unlogged=unlogged)}, locked for {held:.2f} s")
        if unlogged:
            self.stdout.write("\n" + self.style.WARNING(LOST.rstrip()))

    def stopped(self, using: str, table: str, error: Error) -> str:
        """Return the error text for a table that could not be changed, with the sessions that lock it."""
        text = f"{table} is not changed: {primary(error)}."
        if isinstance(error.__cause__, LockNotAvailable):
            for holder in durability.table_holders(using, table):
                text += (
                    f"\nIt is used by process {holder.pid} ({printable(holder.application)}, user "
                    f"{printable(holder.user)}), whose transaction is open for {holder.seconds:.0f} s."
                )
        return text + "\nThe tables in the lines above are done. Run the command again for the rest."


def word(*, unlogged: bool) -> str:
    """Return the durability of tables as the output names it."""
    return "UNLOGGED" if unlogged else "logged"


def megabytes(size: int) -> str:
    """Return a number of bytes in MB."""
    return f"{size / 2**20:,.1f} MB"
