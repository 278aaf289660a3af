"""Grant and revoke the rights of a role, check them, and encrypt payloads with a new key."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.core.management.base import CommandError
from django.db import connections

from django_pgqueue import codecs
from django_pgqueue.checks.migrated import find_app_problem
from django_pgqueue.exceptions import CodecUnavailable
from django_pgqueue.lifecycle.enqueue import FLOW
from django_pgqueue.lifecycle.sealing import TABLES, count_leased, encode_anew
from django_pgqueue.management.cli.options import option, positive
from django_pgqueue.management.cli.verbs import VerbRun, verb
from django_pgqueue.sql import grants
from django_pgqueue.sql.files import PIPELINE
from django_pgqueue.sql.grants import SchemaPlace
from django_pgqueue.sql.optional import find_optional
from django_pgqueue.sql.roles import KINDS, ClientKind, client_kinds

MOST_SHOWN = 10
KIND = option("kind", choices=[kind.name for kind in KINDS], help="what the role is to do")
ROLE = option("role", metavar="ROLE", help="the role; it must exist")


def look(run: VerbRun) -> tuple[ClientKind, SchemaPlace, bool]:
    """Return the kind of client, the schema of the tables, and whether the role needs no grants. Raises
    CommandError."""
    name, role, using = run.given.kind, run.given.role, run.using
    place, is_above = grants.find_place(using), grants.is_above_grants(using, role)
    if place is None:
        raise CommandError(f"The tables of the queue are not in the database {using!r}: run manage.py migrate.")
    if is_above is None:
        raise CommandError(f"There is no role {role!r}. Create it: CREATE ROLE {grants.quoted_identifier(role)} LOGIN")
    wanted = client_kinds(**find_optional(using)._asdict()).get(name)
    if wanted is None:
        problem = find_app_problem(using, PIPELINE)
        reason = f" {problem.problem} {problem.action}" if problem else ""
        raise CommandError(f"The tables of the pipeline are not in the database {using!r}.{reason}")
    return wanted, place, is_above


def execute(run: VerbRun, statements: list[str]) -> None:
    """Run the statements in one transaction, or print them for a dry run."""
    if run.dry_run:
        run.show([f"{statement};" for statement in statements], statements=statements)
        return
    with connections[run.using].schema_editor(atomic=True) as editor:
        for statement in statements:
            editor.execute(statement, params=None)


@verb(
    "grant", "Grant a role of the database what it needs as a producer, worker, operator, reader or pipeline.",
    "producer shop_web --dry-run", KIND, ROLE, changes=True,
)  # fmt: skip
def grant(run: VerbRun) -> None:
    role = run.given.role
    kind, place, _ = look(run)
    execute(run, list(grants.grant_statements(kind, role, place)))
    if run.dry_run:
        return
    # PostgreSQL only warns of grants without effect.
    if missing := [item.right for item in grants.missing_rights(kind, role, place, run.using)]:
        raise CommandError(
            f"These rights were not granted; run the command as the owner of the tables: {', '.join(missing)}"
        )
    run.answer(f"{role!r} is a {kind.name} now.", role=role, kind=kind.name)


@verb("revoke", "Revoke from a role what grant has granted.", "producer shop_web", KIND, ROLE, changes=True, asks=True)
def revoke(run: VerbRun) -> None:
    role = run.given.role
    kind, place, _ = look(run)
    execute(run, list(grants.revoke_statements(kind, role, place)))
    if not run.dry_run:
        text = f"{role!r} is no longer a {kind.name}. If it is also of another kind, grant the rights of that again."
        run.answer(text, role=role, kind=kind.name)


@verb("rights", "List the rights that a role lacks, and those that it does not need.", "worker shop_worker", KIND, ROLE)
def check_rights(run: VerbRun) -> None:
    role = run.given.role
    kind, place, is_above = look(run)
    if is_above:
        text = f"{role!r} is a superuser or owns the tables: it needs no grants."
        run.answer(text, missing=[], surplus=[])
        return
    missing = list(grants.missing_rights(kind, role, place, run.using))
    surplus = list(grants.surplus_rights(kind, role, run.using))
    lines = [f"missing: {item.right} (to {item.purpose})" for item in missing]
    lines += [f"more than a {kind.name} needs: {right}" for right in surplus]
    lines += [] if missing else [f"{role!r} has all rights of a {kind.name}."]
    run.show(lines, missing=[item.right for item in missing], surplus=surplus)
    if missing:
        raise CommandError(
            f"{role!r} lacks {len(missing)} right(s) of a {kind.name}: manage.py pgqueue grant {kind.name} {role}"
        )


@verb(
    "encrypt", "Encrypt all that may come back anew with the first of PAYLOAD_KEYS.", "",
    option("--batch", type=positive, default=200, metavar="N", help="rows of each transaction (default: 200)"),
)  # fmt: skip
def encrypt(run: VerbRun) -> None:
    if codecs.current() is None:
        raise CommandError("PAYLOAD_CODEC is not set, so there is nothing to encrypt with.")
    has_flow = apps.is_installed(FLOW)
    tables = {kind: table for kind, table in TABLES.items() if has_flow or not table.flow}
    encrypted, failed = dict.fromkeys(tables, 0), {}
    for kind, table in tables.items():
        after, undecodable = table.start, list[Any]()
        try:
            while (done := encode_anew(kind, after=after, limit=run.given.batch, using=run.using)) is not None:
                encrypted[kind], after = encrypted[kind] + done.encoded, done.last
                undecodable += done.undecodable
        except CodecUnavailable as error:
            raise CommandError(
                f"{error.message}. {error.hint}\n{kind}: {encrypted[kind]:,} were encrypted anew."
            ) from error
        if undecodable:
            failed[kind] = undecodable
    lines = [f"{kind}: {count:,} encrypted anew" for kind, count in encrypted.items()]
    if leased := count_leased(run.using):
        lines.append(f"{leased:,} messages are leased, and were left out: run it again when they are settled.")
    run.show(lines, encrypted=encrypted, undecodable=failed, leased=leased)
    for kind, ids in failed.items():
        shown = ", ".join(map(str, ids[:MOST_SHOWN])) + (", …" if len(ids) > MOST_SHOWN else "")
        run.warn(f"{kind}: {len(ids):,} cannot be decrypted with the keys of now: {shown}")
    if failed:
        raise CommandError("Some rows stay as they are. Bring their key back, behind the others, and run it again.")
