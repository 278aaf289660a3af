"""Retention and export together: nothing is dropped that the lake does not have."""

from __future__ import annotations

from pathlib import Path

from django_pgqueue.spark.export.job import export
from django_pgqueue.spark.export.task import ExportOptions
from django_pgqueue.spark.source import Source
from tests.spark.rows import DAY, fill_archive, fill_dead_letters, make_partition
from tests.spark.test_export import expected, ids
from tests.support.sessions import Connect
from tests.support.sessions import Session as Database


def prune(database: Database) -> tuple[int, int, int]:
    """Partitions dropped and kept, dead letters deleted."""
    row = database.execute(
        "SELECT partitions_dropped, partitions_kept, dead_letters_deleted"
        " FROM pgqueue_prune(interval '3 days', interval '3 days', 7, p_keep_unexported => true)"
    ).fetchone()
    assert row is not None
    return row


def test_exported_rows_are_dropped_and_not_before(source: Source, database: Database, lake: Path) -> None:
    fill_archive(database, 100)
    fill_dead_letters(database, 10)
    there = expected(database)
    assert prune(database) == (0, 1, 0)
    export(source, lake)
    assert prune(database) == (1, 0, 10)
    assert expected(database) == []
    assert ids(lake) == there
    assert len(ids(lake, "dead_letter")) == 10


def test_rows_that_are_committed_late_are_dropped_after_the_next_export(
    source: Source, database: Database, connect: Connect, lake: Path
) -> None:
    make_partition(database, DAY)
    slow = connect()
    fill_archive(slow, 5)
    fill_archive(database, 100)
    export(source, lake)
    assert prune(database) == (0, 1, 0), "its rows are not there yet"
    slow.commit()
    assert prune(database) == (0, 1, 0), "the lake has 100 of 105"
    there = expected(database)
    export(source, lake)
    assert prune(database) == (1, 0, 0)
    assert ids(lake) == there
    assert len(there) == 105


def test_a_day_from_which_an_operator_deleted_rows_is_left_alone(
    source: Source, database: Database, lake: Path
) -> None:
    fill_archive(database, 100)
    export(source, lake)
    database.execute("DELETE FROM pgqueue_archived_message WHERE id = (SELECT min(id) FROM pgqueue_archived_message)")
    assert prune(database) == (0, 1, 0)
    export(source, lake, ExportOptions(rescan=True))
    assert len(ids(lake)) == 100, "the lake keeps what it has"
    assert prune(database) == (0, 1, 0)


def test_the_next_export_after_retention_has_each_row_once(source: Source, database: Database, lake: Path) -> None:
    """The rows of a day that is gone stay in the lake, and nothing is taken twice."""
    fill_archive(database, 100)
    export(source, lake)
    prune(database)
    fill_archive(database, 7)
    export(source, lake)
    assert len(ids(lake)) == len(set(ids(lake))) == 107
    assert prune(database) == (0, 1, 0), "this partition is another one than the lake's day: 7 rows are not 107"
