"""The tables of the apps pgqueue and pipeline, as the catalog of the database has them; and how tests empty tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.apps import apps
from django.db import connection, connections

from django_pgqueue.apps import create_default_channel, keep_ready
from tests.support.sessions import Session, column

# Without the partitions of the archive, which belong to their parent.
TABLES = """
SELECT c.relname FROM pg_class AS c
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
    AND starts_with(c.relname, 'pgqueue_')
ORDER BY c.relname
"""
# A table without a page has no row. The second column: whether its rows are better deleted than truncated, which takes
# longer, and makes each session plan its statements anew. Those that exports read by their blocks begin anew. No other
# table refers to a table of the queue.
WRITTEN = """
SELECT c.oid::regclass::text, starts_with(c.relname, 'pgqueue_') AND pg_relation_size(c.oid) <= 65536
    AND NOT c.relispartition AND c.relname <> 'pgqueue_dead_letter'
FROM pg_class AS c
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND pg_relation_size(c.oid) > 0
    AND (starts_with(c.relname, 'pgqueue_') OR c.relname = ANY (%s)) AND c.relname <> ALL (%s)
ORDER BY c.relname
"""
# The last row of the floors is needed: a migration made it, and each tick replaces it.
KEPT = {"pgqueue_floor"}
# What migrations write, and nothing else.
OF_MIGRATIONS = {"django_migrations", "django_content_type", "auth_permission"}
# A bulk enqueue of the pipeline makes a table for its rows. The table pgqueue_ingest_stage lists them.
STAGE = "pgqueue_stage_"


def tables(session: Session) -> list[str]:
    """Return the names of all tables of the apps pgqueue and pipeline, sorted."""
    return column(session, TABLES)


def empty_tables(session: Session | None = None, *others: str) -> None:
    """Empty all tables of the apps pgqueue and pipeline but the floors, and drop the stages of bulk enqueues.

    session   in autocommit; default: the session of Django, which must not be in a transaction
    others    the names of more tables to empty
    """
    if session is None:
        assert not connection.in_atomic_block, "TRUNCATE would hold its locks until the end of the test"
        connection.ensure_connection()
        session = connection.connection
    if stages := [name for name in tables(session) if name.startswith(STAGE)]:
        session.execute(f"DROP TABLE {', '.join(stages)}")
    empty_written(session, others, KEPT)


def empty_written(session: Session, others: Iterable[str], kept: Iterable[str]) -> None:
    """Empty the tables pgqueue_* and others that something was written to: in a tenth of the time of TRUNCATE.

    session   in autocommit
    others    the names of more tables to empty
    kept      the names of tables that stay as they are
    """
    found = session.execute(WRITTEN, (list(others), list(kept))).fetchall()
    statements = [f"DELETE FROM {name}" for name, is_small in found if is_small]
    if large := [name for name, is_small in found if not is_small]:
        statements.append(f"TRUNCATE {', '.join(large)} CASCADE")
    if statements:
        session.execute("; ".join(statements))


def flush(case: Any) -> None:
    """Leave the database as Django's flush does at the end of a test that commits, in a tenth of its time.

    In place of TransactionTestCase._fixture_teardown(). tests/testing has the tests of the real flush.
    """
    for alias in case._databases_names(include_mirrors=False):
        connections[alias].ensure_connection()
        models = {model._meta.db_table for model in apps.get_models(include_auto_created=True)}
        empty_written(connections[alias].connection, models, KEPT | OF_MIGRATIONS)
        config = apps.get_app_config("pgqueue")
        create_default_channel(config, alias)
        keep_ready(config, alias)
