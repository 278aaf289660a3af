"""Find indexes that are missing, or that PostgreSQL does not use because their build failed or is not finished."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import compress
from typing import NamedTuple

from django.apps import apps
from django.db import connections, models

from django_pgqueue.checks.rules import CRITICAL, NOTE, WARNING, Limits, Row, Rule
from django_pgqueue.sql import files
from django_pgqueue.sql.call import call
from django_pgqueue.sql.files import FLOW, PIPELINE, QUEUE
from django_pgqueue.sql.optional import find_optional

# An index that is built or dropped CONCURRENTLY is invalid until that is done. A role without the right to see the
# progress of other sessions still sees their locks: a build locks the table, a rebuild or a drop the index itself.
SQL = """
SELECT i.relname::text, t.relname::text, i.relkind = 'I', x.indisvalid AND x.indisready AND x.indislive,
    CASE
        WHEN x.indisvalid AND x.indisready AND x.indislive THEN NULL
        WHEN EXISTS (
            SELECT FROM pg_stat_progress_create_index AS p
            JOIN pg_locks AS l ON l.pid = p.pid
            WHERE l.granted AND l.mode = 'ShareUpdateExclusiveLock' AND l.locktype = 'relation' AND l.database = p.datid
                AND p.datid = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
                AND (
                    p.index_relid = x.indexrelid OR l.relation = x.indexrelid
                    OR l.relation = x.indrelid AND coalesce(p.index_relid, 0) = 0
                    OR l.relation IN (SELECT h.inhrelid FROM pg_inherits AS h WHERE h.inhparent = x.indrelid)))
            THEN 'built'
        WHEN EXISTS (
            SELECT FROM pg_locks AS l
            WHERE l.granted AND l.mode = 'ShareUpdateExclusiveLock' AND l.locktype = 'relation'
                AND l.relation = x.indexrelid
                AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database()))
            THEN 'dropped'
    END
FROM pg_index AS x
JOIN pg_class AS i ON i.oid = x.indexrelid
JOIN pg_class AS t ON t.oid = x.indrelid
WHERE t.relname LIKE 'pgqueue%%' AND pg_table_is_visible(t.oid)
ORDER BY i.relname
"""
CREATE_INDEX = re.compile(r"^CREATE (?:UNIQUE )?INDEX (?:CONCURRENTLY )?(\w+)\s+ON (\w+) .*?;$", re.M | re.S)
UNIQUE = re.compile(r"^ALTER TABLE (\w+)\s+ADD CONSTRAINT (\w+) UNIQUE .*?;$", re.M | re.S)


class ExpectedIndex(NamedTuple):
    """Hold the table of an index, and the statement that makes it."""

    table: str
    statement: str


def expected_indexes(using: str) -> dict[str, ExpectedIndex]:
    """Return the indexes of this release by their names: those of the models and of the SQL files, and the primary
    keys."""
    editor = connections[using].schema_editor()
    found: dict[str, ExpectedIndex] = {}
    labels = [QUEUE, *compress((PIPELINE, FLOW), find_optional(using))]
    for model in (model for model in apps.get_models() if model._meta.app_label in labels):
        table = model._meta.db_table
        if model._meta.managed:
            found[f"{table}_pkey"] = ExpectedIndex(
                table, f"ALTER TABLE {table} ADD PRIMARY KEY ({model._meta.pk.column})"
            )
            for index in model._meta.indexes:
                found[index.name] = ExpectedIndex(table, str(index.create_sql(model, editor, concurrently=True)))
            for constraint in model._meta.constraints:
                if isinstance(constraint, models.UniqueConstraint):
                    found[constraint.name] = ExpectedIndex(table, str(constraint.create_sql(model, editor)))
    for path in files.file_paths("tables", labels):
        text = path.read_text(encoding="utf-8")
        for match in CREATE_INDEX.finditer(text):
            found[match[1]] = ExpectedIndex(match[2], concurrently(" ".join(match[0].rstrip(";").split())))
        for match in UNIQUE.finditer(text):
            found[match[2]] = ExpectedIndex(match[1], " ".join(match[0].rstrip(";").split()))
    return found


def concurrently(statement: str) -> str:
    """Return the statement with CONCURRENTLY."""
    return statement if " CONCURRENTLY " in statement else statement.replace(" INDEX ", " INDEX CONCURRENTLY ", 1)


def broken_indexes(using: str, limits: Limits) -> Iterator[Row]:
    """Yield indexes that are missing, invalid or being built. That of a partitioned table is invalid while a partition
    has none."""
    wanted = expected_indexes(using)
    there = {index: rest for index, *rest in call(using, SQL)}
    for index, (table, statement) in sorted(wanted.items()):
        if index not in there:
            yield {"code": "index_missing", "index": index, "table": table, "statement": statement}
    for index, (table, is_partitioned, is_valid, work) in there.items():
        found = {"index": index, "table": table, "work": work}
        if work:
            yield found | {"code": "index_in_progress"}
        elif not is_valid and is_partitioned and index not in wanted:
            yield found | {"code": "index_invalid:partitioned", "statement": f"DROP INDEX {index}"}
        elif not is_valid:
            is_ours = index in wanted
            statement = f"{'REINDEX' if is_ours else 'DROP'} INDEX CONCURRENTLY {index}"
            severity = CRITICAL if is_ours else WARNING
            yield found | {"code": "index_invalid", "statement": statement, "severity": severity}


INVALID = "The index {index} of {table} is invalid: its build failed. It makes writes slower, and no statement uses it."
# fmt: off
INDEXES = (
    Rule("index_missing", CRITICAL, broken_indexes, "index table statement",
        "The index {index} of {table} is missing: statements that need it read the whole table.",
        "Make it, as the owner and outside of a transaction: {statement:raw}"),
    Rule("index_invalid", WARNING, broken_indexes, "index table statement",
        INVALID, "As the owner and outside of a transaction: {statement:raw}"),
    Rule("index_invalid:partitioned", WARNING, broken_indexes, "index table statement",
        INVALID, "ALTER INDEX {index} ATTACH PARTITION … for an index of each partition, or {statement:raw}"),
    Rule("index_in_progress", NOTE, broken_indexes, "index table work",
        "The index {index} of {table} is being {work} now: no statement uses it.",
        "Wait until it is done. It waits for older transactions: pgqueue doctor --only horizon shows them."),
)
# fmt: on
