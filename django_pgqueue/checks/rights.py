"""Compare the rights of the role of this connection with those of the kinds of clients that it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from django_pgqueue.checks.rules import WARNING, Limits, Row, Rule
from django_pgqueue.sql import grants
from django_pgqueue.sql.call import call
from django_pgqueue.sql.grants import MissingRight
from django_pgqueue.sql.optional import find_optional
from django_pgqueue.sql.roles import PRODUCER, READER, ClientKind, client_kinds

# The rights that a text names; the command of the hint lists all.
MOST_SHOWN = 5
RUNNABLE = """
SELECT u.name FROM unnest(%s::text[]) AS u (name)
WHERE has_function_privilege(to_regproc('pgqueue_' || u.name)::oid, 'EXECUTE')
"""


def lacking_kinds(using: str, limits: Limits) -> Iterator[Row]:
    """Yield the kinds of client of which the role of this connection has some rights and not all."""
    role = own_role(using)
    if role is None:
        return
    for kind in claimed_kinds(using):
        if missing := missing_rights(kind, role, using):
            texts = {"missing": rights_text(missing), "grant": grant_command(kind, role)}
            yield {"role": role, "number": len(missing), "kind": kind.name} | texts


def own_role(database: str) -> str | None:
    """Return the role of this connection; None for one that needs no grants, because it owns the tables, for example,
    and if there are no tables of the queue.

    ``database``: alias.
    """
    if grants.find_place(database) is None:
        return None
    [(role,)] = call(database, "SELECT current_user::text")
    return None if grants.is_above_grants(database, role) else role


def missing_rights(kind: ClientKind, role: str, database: str) -> list[MissingRight]:
    """Return the rights of ``kind`` that the role lacks; all tables of the queue must be visible to it."""
    place = grants.find_place(database)
    return [] if place is None else list(grants.missing_rights(kind, role, place, database))


def claimed_kinds(database: str) -> list[ClientKind]:
    """Return the kinds that the role of this connection seems to be: it may run a function that no other kind may run.

    A producer and a reader have no such function; the role is one of them if it is nothing else.
    """
    kinds = client_kinds(**find_optional(database)._asdict())
    places = Counter(verb for kind in kinds.values() for verb in set(kind.verbs))
    runnable = {name for (name,) in call(database, RUNNABLE, (sorted(places),))}
    claimed = [kind for kind in kinds.values() if any(places[verb] == 1 for verb in runnable.intersection(kind.verbs))]
    return claimed or [kinds[kind.name] for kind in (PRODUCER, READER) if runnable & set(kind.verbs)]


def rights_text(missing: list[MissingRight]) -> str:
    """Return the rights as ``a, b and 3 more``."""
    shown = ", ".join(item.right for item in missing[:MOST_SHOWN])
    return f"{shown} and {len(missing) - MOST_SHOWN} more" if len(missing) > MOST_SHOWN else shown


def grant_command(kind: ClientKind, role: str) -> str:
    """Return the command that grants all rights of this kind."""
    return f"manage.py pgqueue grant {kind.name} {role}"


# fmt: off
RIGHTS = (
    Rule("pgqueue.W023", WARNING, lacking_kinds, "",
        "The role {role!r:raw} of database {database!r} lacks {number} right(s) of a {kind}: {missing}.",
        "As the owner of the tables: {grant:raw}."),
)
# fmt: on
