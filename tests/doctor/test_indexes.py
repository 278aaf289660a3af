from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import psycopg
import pytest

from django_pgqueue.doctor import indexes
from django_pgqueue.sql import files
from tests.doctor.conftest import Examine
from tests.support.cases import cases
from tests.support.sessions import Connect
from tests.support.sql import sql, value
from tests.support.waiting import eventually

OF_EACH_KIND = [
    "pgqueue_message_scheduled", "pgqueue_message_ready", "pgqueue_message_dedupe", "pgqueue_channel_name",
    "pgqueue_lane_head", "pgqueue_dead_letter_xid", "pgqueue_dead_letter_pkey", "pgqueue_queue_metric_once",
]  # fmt: skip


@cases("index", OF_EACH_KIND)
def test_an_index_that_was_dropped(connect: Connect, found: Examine, index: str) -> None:
    owner = connect(autocommit=True)
    before = value("SELECT pg_get_indexdef(%s::regclass)", index)
    table = value("SELECT indrelid::regclass::text FROM pg_index WHERE indexrelid = %s::regclass", index)
    statement = indexes.expected_indexes("default")[index].statement
    try:
        if sql("SELECT 1 FROM pg_constraint WHERE conname = %s", index):
            owner.execute(f"ALTER TABLE {table} DROP CONSTRAINT {index}")
        else:
            owner.execute(f"DROP INDEX {index}")
        finding = found("indexes")["index_missing"]
        assert (finding.severity.word, finding.facts["index"], finding.facts["table"]) == ("critical", index, table)
        assert finding.action.endswith(statement)
    finally:
        owner.execute(statement)
    assert found("indexes") == {}
    assert value("SELECT pg_get_indexdef(%s::regclass)", index) == before


def test_an_index_whose_build_has_failed(connect: Connect, found: Examine) -> None:
    owner = connect(autocommit=True)
    for _ in range(2):
        sql("INSERT INTO pgqueue_message (channel_id, handler) SELECT c.id, 'h' FROM pgqueue_channel AS c")
    with pytest.raises(psycopg.errors.UniqueViolation):
        owner.execute("CREATE UNIQUE INDEX CONCURRENTLY somebodys ON pgqueue_message (channel_id)")
    finding = found("indexes")["index_invalid"]
    assert (finding.severity.word, finding.facts["index"]) == ("warning", "somebodys")
    owner.execute(finding.facts["statement"])
    assert found("indexes") == {}


@contextmanager
def under_way(connect: Connect, statement: str, table: str) -> Iterator[None]:
    """The statement is there and not at its end: it waits for a transaction that has written to the table."""
    writer, owner = connect(), connect(autocommit=True)
    writer.execute(f"DELETE FROM {table} WHERE false")
    other = Thread(target=owner.execute, args=(statement,))
    other.start()
    try:
        pid = owner.info.backend_pid
        eventually(lambda: sql("SELECT 1 FROM pg_locks WHERE pid = %s AND NOT granted", pid) and sql(INVALID))
        yield
    finally:
        writer.rollback()
        other.join()


INVALID = "SELECT 1 FROM pg_index WHERE NOT indisvalid"
BUILD = "CREATE INDEX CONCURRENTLY {0}_payload ON {0} (id)"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("may_see", [True, False])
def test_an_index_that_is_being_built_is_left_alone(connect: Connect, found: Examine, may_see: bool) -> None:
    owner = connect(autocommit=True)
    sql("CREATE ROLE pgqueue_test_shortsighted")
    try:
        with under_way(connect, BUILD.format("pgqueue_message"), "pgqueue_message"):
            if not may_see:
                sql("SET ROLE pgqueue_test_shortsighted")
                assert sql("SELECT index_relid FROM pg_stat_progress_create_index") == [(None,)]
            finding = found("indexes")["index_in_progress"]
            sql("RESET ROLE")
        assert (finding.severity.word, finding.facts["index"]) == ("note", "pgqueue_message_payload")
        assert "is being built" in finding.problem
        assert found("indexes") == {}
    finally:
        sql("RESET ROLE; DROP ROLE pgqueue_test_shortsighted")
        owner.execute("DROP INDEX IF EXISTS pgqueue_message_payload")


def test_an_index_of_ours_that_is_not_used(connect: Connect, found: Examine) -> None:
    owner = connect(autocommit=True)
    owner.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'pgqueue_message_expiry'::regclass")
    finding = found("indexes")["index_invalid"]
    assert (finding.severity.word, finding.facts["index"]) == ("critical", "pgqueue_message_expiry")
    owner.execute(finding.facts["statement"])
    assert found("indexes") == {}


def test_all_indexes_are_known(db: None) -> None:
    """But for those of unique columns, whose names Django makes."""
    there = {
        name
        for (name,) in sql(
            "SELECT i.relname::text FROM pg_index AS x JOIN pg_class AS i ON i.oid = x.indexrelid"
            " JOIN pg_class AS t ON t.oid = x.indrelid WHERE t.relname LIKE 'pgqueue%' AND NOT t.relispartition"
        )
    }
    by_django = {name for name in there if name.endswith(("_like", "_uniq", "_key"))}
    of_sql_tables = {name for name in there if name.endswith("_pkey") and name.removesuffix("_pkey") in sql_tables()}
    assert there - by_django - of_sql_tables == set(indexes.expected_indexes("default"))


def sql_tables() -> set[str]:
    """Tables of sql/tables with a primary key: it is part of the table, and goes with it."""
    texts = [path.read_text() for path in files.file_paths("tables")]
    return {name for text in texts for name in re.findall(r"^CREATE TABLE (\w+)", text, re.MULTILINE)}
