from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error, connections

from django_pgqueue.checks.migrated import find_pipeline_problem
from django_pgqueue.management.database import queue_database
from django_pgqueue.sql import grants
from django_pgqueue.sql.grants import SchemaPlace
from django_pgqueue.sql.pipeline import has_pipeline
from django_pgqueue.sql.roles import KINDS, ClientKind, client_kinds


class Command(BaseCommand):
    help = (
        "Prints the grants that a database role needs as a producer, a worker, an operator, a reader or the pipeline "
        "of the queue; or runs them, or reports what is missing. Run it as the owner of the tables."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("kind", choices=[kind.name for kind in KINDS], help="what the role is to do")
        parser.add_argument("--role", required=True, help="the role; it must exist")
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--apply", action="store_true", help="run the statements, in one transaction")
        what.add_argument(
            "--check",
            action="store_true",
            help="only print what the role lacks, and for what; exit status 1 if anything",
        )
        parser.add_argument("--revoke", action="store_true", help="print or run the statements that revoke the grants")
        parser.add_argument("--database", help="alias of the queue's database (default: as enqueue does)")

    def handle(
        self, *, kind: str, role: str, apply: bool, check: bool, revoke: bool, database: str | None, **options: Any
    ) -> None:
        if check and revoke:
            raise CommandError("--check reports what is missing: it cannot be combined with --revoke.")
        using = queue_database(database)
        try:
            place, is_above = self.look(role, using)
            wanted = self.find_kind(kind, using)
            if check:
                self.check_rights(wanted, role, place, using, is_above=is_above)
                return
            statements = list((grants.revoke_statements if revoke else grants.grant_statements)(wanted, role, place))
            if not apply:
                self.stdout.write("".join(f"{statement};\n" for statement in statements), ending="")
                return
            with connections[using].schema_editor(atomic=True) as editor:
                for statement in statements:
                    editor.execute(statement, params=None)
            self.confirm(wanted, role, place, using, revoked=revoke)
        except Error as error:
            raise CommandError(f"The database {using!r} refuses: {str(error).strip()}") from error

    def look(self, role: str, using: str) -> tuple[SchemaPlace, bool]:
        """Return the schema of the tables, and whether the role needs no grants. Raises CommandError without tables or
        role."""
        place = grants.find_place(using)
        if place is None:
            raise CommandError(f"The tables of the queue are not in the database {using!r}: run manage.py migrate.")
        is_above = grants.is_above_grants(using, role)
        if is_above is None:
            raise CommandError(
                f"There is no role {role!r}. Create it: CREATE ROLE {grants.quoted_identifier(role)} LOGIN"
            )
        return place, is_above

    def find_kind(self, name: str, using: str) -> ClientKind:
        """Return the kind of this name. Raises CommandError for the pipeline if the database does not have its
        tables."""
        wanted = client_kinds(pipeline=has_pipeline(using)).get(name)
        if wanted is None:
            problem = find_pipeline_problem(using)
            reason = f" {problem.problem} {problem.action}" if problem else ""
            raise CommandError(f"The tables of the pipeline are not in the database {using!r}.{reason}")
        return wanted

    def check_rights(self, kind: ClientKind, role: str, place: SchemaPlace, using: str, *, is_above: bool) -> None:
        """Print the rights that the role lacks or does not need. Raises CommandError if it lacks any."""
        if is_above:
            self.stdout.write(f"{role!r} is a superuser or owns the tables: it needs no grants.")
            return
        missing = list(grants.missing_rights(kind, role, place, using))
        for item in missing:
            self.stdout.write(f"missing: {item.right} (to {item.purpose})")
        for right in grants.surplus_rights(kind, role, using):
            self.stdout.write(f"more than a {kind.name} needs: {right}")
        if missing:
            raise CommandError(
                f"{role!r} lacks {len(missing)} right(s) of a {kind.name}: manage.py queuegrants {kind.name} --role "
                f"{role} --apply"
            )
        self.stdout.write(f"{role!r} has all rights of a {kind.name}.")

    def confirm(self, kind: ClientKind, role: str, place: SchemaPlace, using: str, *, revoked: bool) -> None:
        """Print what the role is now. Raises CommandError for grants without effect, of which PostgreSQL only warns."""
        if revoked:
            self.stdout.write(
                f"{role!r} is no longer a {kind.name}. If it is also of another kind, grant the rights of that again."
            )
            return
        missing = [item.right for item in grants.missing_rights(kind, role, place, using)]
        if missing:
            raise CommandError(
                f"These rights were not granted; run the command as the owner of the tables: {', '.join(missing)}"
            )
        self.stdout.write(f"{role!r} is a {kind.name} now.")
