"""The tables of the apps pgqueue and pipeline, as the catalog of the database has them."""

from __future__ import annotations

from django.db import connection

from tests.support.sessions import Session, column

# Without the partitions of the archive, which belong to their parent.
TABLES = """
SELECT c.relname FROM pg_class AS c
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
    AND starts_with(c.relname, 'pgqueue_')
ORDER BY c.relname
"""
# The last row of the floors is needed: a migration made it, and each tick replaces it.
KEPT = {"pgqueue_floor"}
# A bulk enqueue of the pipeline makes a table for its rows. The table pgqueue_ingest_stage lists them.
STAGE = "pgqueue_stage_"


def tables(session: Session) -> list[str]:
    """Return the names of all tables of the apps pgqueue and pipeline, sorted."""
    return column(session, TABLES)


def empty_tables(session: Session | None = None, *others: str) -> None:
    """Empty all tables of the apps pgqueue and pipeline but the floors, and drop the stages of bulk enqueues.

    Django's flush, which ends a test that commits, does not empty the tables that Django does not manage.

    session   in autocommit; default: the session of Django, which must not be in a transaction
    others    the names of more tables to empty
    """
    if session is None:
        assert not connection.in_atomic_block, "TRUNCATE would hold its locks until the end of the test"
        connection.ensure_connection()
        session = connection.connection
    found = tables(session)
    if stages := [name for name in found if name.startswith(STAGE)]:
        session.execute(f"DROP TABLE {', '.join(stages)}")
    emptied = [name for name in found if name not in KEPT and name not in stages]
    session.execute(f"TRUNCATE {', '.join([*emptied, *others])}")
