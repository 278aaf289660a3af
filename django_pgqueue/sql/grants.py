"""Build GRANT and REVOKE statements for a kind of client, and find rights that a role lacks or does not need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django_pgqueue.sql import roles
from django_pgqueue.sql.call import call
from django_pgqueue.sql.optional import find_optional
from django_pgqueue.sql.roles import READ, ClientKind, TableRight

PLACE = """
SELECT n.nspname::text, ARRAY(
    SELECT p.relname::text FROM pg_inherits AS i JOIN pg_class AS p ON p.oid = i.inhrelid
    WHERE i.inhparent = c.oid ORDER BY p.relname)
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass('pgqueue_archived_message')
"""
ROLE = """
SELECT r.rolsuper OR pg_has_role(r.oid, c.relowner, 'MEMBER')
FROM pg_roles AS r, pg_class AS c
WHERE r.rolname = %s::text AND c.oid = 'pgqueue_message'::regclass
"""
UNUSABLE = "SELECT true WHERE NOT has_schema_privilege(%s::text, %s::text, 'USAGE')"
UNRUNNABLE = """
SELECT u.name FROM unnest(%s::text[]) AS u (name)
WHERE NOT coalesce(has_function_privilege(%s::text, to_regproc(u.name)::oid, 'EXECUTE'), false)
"""
WHOLE = """
SELECT has_table_privilege(%s::text, 'pgqueue_' || u.name, u.privilege)
FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS u (name, privilege, place) ORDER BY u.place
"""
SOME = """
SELECT c.name FROM unnest(%s::text[]) AS c (name)
WHERE NOT has_column_privilege(%s::text, 'pgqueue_' || %s::text, c.name, %s::text)
"""
WRITES = ("INSERT", "UPDATE", "DELETE", "TRUNCATE", "TRIGGER")


@dataclass(frozen=True, slots=True)
class SchemaPlace:
    """Hold the schema of the queue's tables, and the names of the archive's partitions.

    Rights are granted on each partition, too, because clients may read it by its own name.
    """

    schema: str
    partitions: tuple[str, ...]

    def tables(self, name: str) -> list[str]:
        """Return the qualified names of the table ``name`` (without ``pgqueue_``); the archive has its partitions."""
        names = [f"pgqueue_{name}", *(self.partitions if name == "archived_message" else ())]
        return [self.qualified(table) for table in names]

    def qualified(self, name: str) -> str:
        """Return the quoted name with its schema."""
        return f"{quoted_identifier(self.schema)}.{quoted_identifier(name)}"


@dataclass(frozen=True, slots=True)
class MissingRight:
    """Hold a right that a role lacks, in words. ``purpose``: what the role cannot do without it."""

    right: str
    purpose: str


def find_place(using: str) -> SchemaPlace | None:
    """Return where the queue's tables are; None if they are not on the search_path, or not migrated."""
    rows = call(using, PLACE)
    return SchemaPlace(rows[0][0], tuple(rows[0][1])) if rows else None


def is_above_grants(using: str, role: str) -> bool | None:
    """Return whether the role needs no grants, because it is a superuser or owns the tables. None: there is no such
    role."""
    rows = call(using, ROLE, (role,))
    return rows[0][0] if rows else None


def grant_statements(kind: ClientKind, role: str, place: SchemaPlace) -> Iterator[str]:
    """Yield the statements that grant the rights of ``kind`` to the role. They may be run again."""
    yield f"GRANT USAGE ON SCHEMA {quoted_identifier(place.schema)} TO {quoted_identifier(role)}"
    for right, names in grantable_rights(kind, place):
        yield f"GRANT {right} {names} TO {quoted_identifier(role)}"


def revoke_statements(kind: ClientKind, role: str, place: SchemaPlace) -> Iterator[str]:
    """Yield the statements that revoke the rights of ``kind`` from the role.

    The right to use the schema stays, because the schema may hold more than the queue.
    """
    for right, names in grantable_rights(kind, place):
        yield f"REVOKE {right} {names} FROM {quoted_identifier(role)}"


def grantable_rights(kind: ClientKind, place: SchemaPlace) -> Iterator[tuple[str, str]]:
    """Yield rights as `EXECUTE`, `ON ROUTINE a, b`; those of whole tables together, those of columns one table each."""
    yield "EXECUTE", f"ON ROUTINE{name_list(place.qualified(f'pgqueue_{verb}') for verb in kind.verbs)}"
    whole: dict[str, list[str]] = {}
    for right in kind.rights:
        if right.columns:
            columns = ", ".join(quoted_identifier(column) for column in right.columns)
            yield f"{right.privilege} ({columns})", f"ON TABLE {place.tables(right.table)[0]}"
        else:
            whole.setdefault(right.privilege, []).extend(place.tables(right.table))
    for privilege, tables in whole.items():
        yield privilege, f"ON TABLE{name_list(tables)}"


def missing_rights(kind: ClientKind, role: str, place: SchemaPlace, using: str) -> Iterator[MissingRight]:
    """Yield the rights of ``kind`` that the role lacks. ``using``: database alias."""
    if call(using, UNUSABLE, (role, place.schema)):
        yield MissingRight(f"USAGE on the schema {place.schema}", "reach the queue at all")
    for (function,) in call(using, UNRUNNABLE, ([f"pgqueue_{verb}" for verb in kind.verbs], role)):
        yield MissingRight(f"EXECUTE on {function}", function.removeprefix("pgqueue_"))
    for right, found in zip(kind.rights, held_rights(role, kind.rights, using), strict=True):
        if found:
            continue
        if not right.columns:
            yield MissingRight(f"{right.privilege} on pgqueue_{right.table}", right.purpose)
        elif lacking := call(using, SOME, (list(right.columns), role, right.table, right.privilege)):
            columns = ", ".join(column for (column,) in lacking)
            yield MissingRight(f"{right.privilege} ({columns}) on pgqueue_{right.table}", right.purpose)
    if any((right.privilege, right.table) == (READ, "archived_message") for right in kind.rights):
        names = [name.removeprefix("pgqueue_") for name in place.partitions]
        for name, (found,) in zip(names, call(using, WHOLE, (role, names, [READ] * len(names))), strict=True):
            if not found:
                yield MissingRight(f"{READ} on pgqueue_{name}", "read this day by its own name")


def surplus_rights(kind: ClientKind, role: str, using: str) -> Iterator[str]:
    """Yield, in words, the rights of the role to write whole tables that ``kind`` does not need.

    A role that has them can forge leases.
    """
    needed = {(right.privilege, right.table) for right in kind.rights if not right.columns}
    there = roles.queue_tables(**find_optional(using)._asdict())
    asked = [TableRight(word, table, "") for table in there for word in WRITES if (word, table) not in needed]
    for right, found in zip(asked, held_rights(role, asked, using), strict=True):
        if found:
            yield f"{right.privilege} on pgqueue_{right.table}"


def held_rights(role: str, asked: Iterable[TableRight], using: str) -> list[bool]:
    """Return whether the role has each of these rights for the whole table."""
    asked = list(asked)
    rows = call(using, WHOLE, (role, [right.table for right in asked], [right.privilege for right in asked]))
    return [row[0] for row in rows]


def name_list(names: Iterable[str]) -> str:
    """Return the names as a list in SQL, each in a line of its own."""
    return "\n    " + ",\n    ".join(names) + "\n   "


def quoted_identifier(name: str) -> str:
    """Return the name as a quoted identifier in SQL."""
    return '"' + name.replace('"', '""') + '"'
