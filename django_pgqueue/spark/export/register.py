"""Check that lake and database belong together, and report exports to the database."""

from __future__ import annotations

import json
from typing import Any

import psycopg

from django_pgqueue.spark.errors import NO_TABLES, PipelineError
from django_pgqueue.spark.export.horizon import Horizon
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.source import Source, only

REMEMBERED = "SELECT l.exported_xid, l.lost FROM pgqueue_lake AS l WHERE l.name = %s"
FORGET = "DELETE FROM pgqueue_lake AS l WHERE l.path = %s AND l.name <> %s"
REPORT = "SELECT pgqueue_lake_exported(%s, %s, %s, %s)"


def check_identity(lake: Lake, identity: tuple[str, str], *, adopt: bool) -> None:
    """Raise PipelineError when the lake holds the rows of another database."""
    known = (lake.description.system_identifier, lake.description.database)
    # A database may be renamed; its oid does not change.
    same = known[0] == identity[0] and known[1].split()[:1] == identity[1].split()[:1]
    if any(known) and not same and not adopt:
        raise PipelineError(
            f"The lake in {lake.path} holds another database (oid and name {known[1]}, system {known[0]}) than this "
            f"one ({identity[1]}, system {identity[0]}): give another lake, or export once with --adopt if it is "
            "the same one after pg_upgrade."
        )


def check_horizon(lake: Lake, horizon: Horizon) -> None:
    """Raise PipelineError when the database is older than the lake: new rows would have numbers that are exported
    already.
    """
    exported = lake.exported()
    if horizon.next_xid is not None and exported > horizon.next_xid:
        raise PipelineError(
            f"The lake in {lake.path} has rows up to transaction {exported}, the database is only at "
            f"{horizon.next_xid}: it was restored from a backup, or made anew. Export to a new lake."
        )


def check_remembered(connection: psycopg.Connection[Any], lake: Lake, *, adopt: bool) -> None:
    """Raise PipelineError when the database remembers a newer state of this lake."""
    exported, known = lake.exported(), remembered(connection, lake)[0]
    if known > exported and not adopt:
        raise PipelineError(
            f"The lake in {lake.path} has rows up to transaction {exported}, the database remembers {known}: this is "
            "an old copy. Bring back the newer one; if it is lost, --adopt goes on from here, without the rows that "
            "retention has dropped in between."
        )


def remembered(connection: psycopg.Connection[Any], lake: Lake) -> tuple[int, dict[str, int]]:
    """Return what the database knows of this lake: its horizon, and by day how many messages retention has dropped
    before the lake had them.
    """
    try:
        row = connection.execute(REMEMBERED, [lake.description.name]).fetchone()
    except (psycopg.errors.UndefinedTable, psycopg.errors.InsufficientPrivilege):
        row = None
    return (row[0], dict(row[1])) if row else (0, {})


def report_export(source: Source, lake: Lake, *, new: bool) -> str:
    """Report to the database which rows the lake holds. Returns a warning if that fails, or "".

    ``new``: this export made the lake, so that the database forgets an earlier lake of the same folder or name.
    """
    name, path, exported = lake.description.name, str(lake.path), lake.exported()
    try:
        with source.connect() as connection:
            user = connection.info.user
            if new:
                # Retention would wait for ever for a lake that was in this folder before.
                connection.execute(FORGET, [path, name])
            [known] = only(connection.execute(REPORT, [name, path, exported, json.dumps(lake.rows)]))
    except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedFunction):
        return f"The database does not know of this export. {NO_TABLES}"
    except psycopg.errors.InsufficientPrivilege:
        return (
            f"The role {user} may not run pgqueue_lake_exported, so the database does not know of this export: "
            f"manage.py pgqueue grant pipeline {user}."
        )
    except (psycopg.Error, PipelineError) as error:
        reason = " ".join(source.redact(str(error)).split())
        return f"This export could not be reported to the database; the next export reports again: {reason}"
    if not known:
        return (
            f"The database remembers a later export to this lake than up to transaction {exported}: another copy of it "
            "is written, too. Keep one."
        )
    return ""
