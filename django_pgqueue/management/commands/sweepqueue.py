from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import Error, connections

from django_pgqueue.conf import settings
from django_pgqueue.maintenance import measurer, sweeper
from django_pgqueue.maintenance.lakes import lakes_waited_for
from django_pgqueue.maintenance.pruner import Pruner
from django_pgqueue.management.database import database_error, known_database, queue_database

# cron.schedule replaces a job of the same name.
CRON = """\
-- Run this in the database with the extension pg_cron. Workers do it by themselves: it is for projects without one.
SELECT cron.schedule_in_database('pgqueue_sweep', '5 seconds', $$SELECT pgqueue_sweep()$$, {database});
SELECT cron.schedule_in_database('pgqueue_prune', '*/5 * * * *',
    $$SELECT pgqueue_prune({archive}, {dead_letter}, {ahead}, {keep})$$, {database});
SELECT cron.schedule_in_database('pgqueue_measure', '15 seconds', $$SELECT pgqueue_measure()$$, {database});
"""


class Command(BaseCommand):
    help = (
        "Runs maintenance once: gives back the messages of dead workers, promotes scheduled messages that are due, "
        "creates the archive's partitions, drops what retention does not keep, and updates the dashboard's figures. "
        "Workers do this by themselves; the command is for cron in projects without workers."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--database", help="alias of the queue's database (default: as enqueue does)")
        parser.add_argument(
            "--print-cron", action="store_true", help="only print the statements that make pg_cron run maintenance"
        )

    def handle(self, *, database: str | None, print_cron: bool, **options: Any) -> None:
        if print_cron:
            self.stdout.write(cron(known_database(database)))
            return
        using = queue_database(database)
        try:
            swept, pruned = sweeper.run_once(using), Pruner().run_once(using)
            steps = (("sweep", swept), ("prune", pruned), ("measure", measurer.run_once(using)))
            for name, counts in steps:
                self.stdout.write(f"{name}: {', '.join(count_text(*item) for item in asdict(counts).items())}")
            for lake in lakes_waited_for(using) if pruned.partitions_kept else ():
                self.stdout.write(f"kept: {lake}")
        except Error as error:
            raise database_error(using, error) from error


def count_text(field: str, count: int | bool) -> str:
    """Return a count as ``3 partitions made``; a flag as ``counted`` or ``not counted``."""
    words = field.replace("_", " ")
    if isinstance(count, bool):
        return words if count else f"not {words}"
    return f"{count} {words}"


def cron(using: str) -> str:
    """Return the statements that make pg_cron sweep, prune and measure by today's settings."""
    return CRON.format(
        database=sql_literal(connections[using].settings_dict["NAME"]),
        archive=interval_literal(settings.ARCHIVE_RETENTION),
        dead_letter=interval_literal(settings.DEAD_LETTER_RETENTION),
        ahead=int(settings.PARTITIONS_AHEAD),
        keep="true" if settings.KEEP_UNTIL_EXPORTED else "false",
    )


def interval_literal(value: Any) -> str:
    """Return a timedelta as an SQL literal; NULL for None."""
    return "NULL" if value is None else f"'{value.total_seconds():.6f}".rstrip("0").rstrip(".") + " seconds'"


def sql_literal(text: str) -> str:
    """Return the text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"
