from __future__ import annotations

import sys
from argparse import SUPPRESS, Namespace, RawDescriptionHelpFormatter
from contextlib import suppress
from copy import copy
from functools import partial
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error

from django_pgqueue.checks.declared import tolerated
from django_pgqueue.exceptions import PgQueueError
from django_pgqueue.management.cli import (  # noqa: F401  (they register the verbs)
    dead,
    lake,
    lists,
    messages,
    pausing,
    removing,
    rights,
    schedules,
    settings,
    watching,
)
from django_pgqueue.management.cli.options import DATABASE, DRY_RUN, JSON, YES
from django_pgqueue.management.cli.verbs import VERBS, Verb, VerbRun, verb
from django_pgqueue.management.commands import runqueueworker, sweepqueue
from django_pgqueue.management.database import database_error, known_database, queue_database
from django_pgqueue.redaction import printable

EXITS = """
exit status:
  0  all is done, or well
  1  something is not done, or refused; the doctor has warnings
  2  the options are wrong; health or the doctor found it critical
  3  the database cannot be asked

manage.py pgqueue VERB --help shows options and an example.
"""
ORDER = """
    queues channels messages dead schedules limits breakers workers stats health doctor explain worker sweep
    set pause resume open close run enable disable retry reschedule cancel discard release edit redrive delete
    purge drop erase lake grant revoke rights encrypt
"""


def delegate(command: type[BaseCommand], run: VerbRun) -> None:
    """Run a command that also has a name of its own."""
    other = command(stdout=run.command.stdout, stderr=run.command.stderr)  # type: ignore[arg-type]  # what it wraps writes
    other.handle(**vars(run.given))


for words, text, command in (
    ("worker", "Run the handlers of messages, as runqueueworker does.", runqueueworker.Command),
    ("sweep", "Run maintenance once, as sweepqueue does.", sweepqueue.Command),
):
    verb(words, text, "", command().add_arguments, database="none", has_json=False)(partial(delegate, command))


class Command(BaseCommand):
    help = "Shows what is in the queue and what is wrong with it, and changes it."

    def add_arguments(self, parser: CommandParser) -> None:
        # Django's own options are taken after the verb, too. Without a default, they do not undo those before it.
        django = [copy(action) for action in parser._actions if action.dest not in ("help", "version")]
        for action in django:
            action.default, action.help = SUPPRESS, SUPPRESS
        parser.formatter_class = RawDescriptionHelpFormatter
        parser.epilog = EXITS
        verbs = parser.add_subparsers(title="verbs", metavar="VERB")
        groups: dict[str, Any] = {}
        for each in sorted(VERBS.values(), key=lambda one: ORDER.split().index(one.words.split()[0])):
            first, _, thing = each.words.partition(" ")
            if thing and first not in groups:
                things = " | ".join(other.split()[1] for other in VERBS if other.startswith(f"{first} "))
                group = verbs.add_parser(first, help=f"{first} {things}")
                groups[first] = group.add_subparsers(title="things", required=True)
            own = (groups[first] if thing else verbs).add_parser(
                thing or first, help=each.help, description=each.help, formatter_class=RawDescriptionHelpFormatter,
                allow_abbrev=False, epilog=f"example:\n  manage.py pgqueue {each.words} {each.example}".rstrip(),
            )  # fmt: skip
            named = each.database != "none"
            shared = ((DRY_RUN, each.changes), (YES, each.asks), (JSON, each.has_json), (DATABASE, named))
            for option in [*each.options, *(option for option, has in shared if has)]:
                option(own)
            for action in django:
                own._add_action(action)
            own.set_defaults(verb=each)

    def check(self, *args: Any, **kwargs: Any) -> None:
        # A module of handlers that cannot be imported must not stop a worker, nor the doctor.
        with tolerated():
            super().check(*args, **kwargs)

    def handle(self, *, verb: Verb | None = None, **options: Any) -> None:
        if verb is None:
            self.print_help("manage.py", "pgqueue")
            return
        given, using = Namespace(**options), ""
        if verb.database == "migrated":
            using = queue_database(given.database)
        elif verb.database == "named":
            using = known_database(given.database)
        try:
            run = VerbRun(self, verb, given, using)
            if verb.asks and not (given.dry_run or given.yes or given.json) and sys.stdin.isatty():
                run.dry_run = True
                verb.function(run)
                with suppress(EOFError, KeyboardInterrupt):
                    run.dry_run = input("Do it? [y/N] ").strip().lower() not in ("y", "yes")
                if run.dry_run:
                    raise CommandError("Nothing was changed.")
            verb.function(run)
        except PgQueueError as error:
            raise CommandError(printable(str(error))) from error
        except Error as error:
            raise database_error(using, error) from error
