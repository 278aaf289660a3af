"""Export: what is settled reaches the lake, each row once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet as pq

from django_pgqueue.spark.export.job import Options, export
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.source import Source
from tests.spark.rows import fill_archive, fill_dead_letters

Database = psycopg.Connection[Any]


def ids(lake: Path, table: str = "archive") -> list[int]:
    """All ids, with those that are there twice."""
    found = []
    for path in Lake.open(lake).files(table):
        found += pq.read_table(path, columns=["id"], partitioning=None)["id"].to_pylist()
    return sorted(found)


def expected(database: Database, table: str = "pgqueue_archived_message") -> list[int]:
    return [row[0] for row in database.execute(f"SELECT id FROM {table} ORDER BY id")]


def test_the_archive_and_the_dead_letters_reach_the_lake(source: Source, database: Database, lake: Path) -> None:
    fill_archive(database, 1000)
    fill_dead_letters(database, 100)

    summary = export(source, lake)

    assert ids(lake) == expected(database)
    assert ids(lake, "dead_letter") == expected(database, "pgqueue_dead_letter")
    assert summary.rows == {"archive": 1000, "dead_letter": 100, "channel": 1}


def test_a_second_export_brings_only_what_is_new(source: Source, database: Database, lake: Path) -> None:
    fill_archive(database, 1000)
    export(source, lake)
    fill_archive(database, 10)
    fill_dead_letters(database, 5)

    summary = export(source, lake)

    assert summary.rows == {"archive": 10, "dead_letter": 5, "channel": 0}
    assert ids(lake) == expected(database)


def test_the_tasks_run_on_spark(spark: Any, source: Source, database: Database, lake: Path) -> None:
    fill_archive(database, 5000)

    export(source, lake, Options(master="local", range_bytes=100_000))

    assert ids(lake) == expected(database)
    assert len(Lake.open(lake).files("archive")) > 1
