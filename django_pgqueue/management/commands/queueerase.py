from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_pgqueue.conf import settings
from django_pgqueue.lifecycle.channel_erase import ChannelErased, channel_erase
from django_pgqueue.management.acting import ActingCommand, errors_as_command_errors
from django_pgqueue.management.commands.queuelake import lake_environment, run_process
from django_pgqueue.management.database import queue_database


class Command(ActingCommand):
    help = (
        "Erases a tenant: removes all rows of a channel from the database, also from the archive, the dead letters and "
        "the figures. Messages under lease are left unless --force is given."
    )

    def add_own(self, parser: CommandParser) -> None:
        parser.add_argument("queue")
        parser.add_argument("channel")
        parser.add_argument(
            "--force", action="store_true", help="erase messages under lease, too; their holders cannot settle them"
        )
        parser.add_argument(
            "--lake", nargs="?", const="", metavar="PATH", help="erase it in the lake, too (default: the setting LAKE)"
        )

    def handle(
        self, *, queue: str, channel: str, force: bool, database: str | None, form: str, dry_run: bool, **given: Any
    ) -> None:
        using = queue_database(database)
        if given["lake"] == "" and settings.LAKE is None:
            raise CommandError("Give --lake a path, or set LAKE.")
        with errors_as_command_errors(using):
            report = channel_erase(queue=queue, channel=channel, force=force, dry_run=dry_run, using=using)
        self.answer(form, in_words(report), facts(report))
        if given["lake"] is not None:
            erase_lake(queue, channel, given["lake"], using, dry_run=dry_run)
            if not dry_run:
                # A rollup may have loaded rows of the lake meanwhile.
                with errors_as_command_errors(using):
                    report = channel_erase(queue=queue, channel=channel, force=force, using=using)
        if not report.done and not dry_run:
            raise CommandError(why_left(report))


def erase_lake(queue: str, channel: str, path: str, using: str, *, dry_run: bool) -> None:
    """Erase the channel in a lake, in a process of its own. Raises CommandError if that fails."""
    command = [sys.executable, "-m", "django_pgqueue.spark", "erase", f"--queue={queue}", f"--channel={channel}"]
    command += [f"--lake={path}"] * bool(path) + ["--dry-run"] * dry_run
    if status := run_process(command, lake_environment(using)):
        raise CommandError("The lake is not erased: see above.", returncode=status)


def in_words(report: ChannelErased) -> str:
    """Return the report as one line."""
    word = "would be erased" if report.dry_run else "is erased" if report.done else "is not erased yet"
    line = f"channel {report.channel} of queue {report.queue} {word}: {rows_text(report.erased)}"
    if report.left:
        line += f"; left: {rows_text(report.left)}"
    return line


def rows_text(counts: dict[str, int]) -> str:
    """Return the counts by table as text."""
    return ", ".join(f"{count:,} {table}" for table, count in counts.items()) or "no rows"


def facts(report: ChannelErased) -> dict[str, Any]:
    """Return the report as the object of the format json."""
    return {
        "action": "erase",
        "queue": report.queue,
        "channel": report.channel,
        "dry_run": report.dry_run,
        "done": report.done,
        "erased": report.erased,
        "left": report.left,
        "leased": report.leased,
    }


def why_left(report: ChannelErased) -> str:
    """Return why rows are left, and what to do."""
    if report.leased:
        return (
            f"Workers hold leases on {report.leased:,} messages. The channel stays paused: run it again when they have "
            "ended, or with --force."
        )
    return "Other transactions hold rows of the channel, or may still bring some: run it again."
