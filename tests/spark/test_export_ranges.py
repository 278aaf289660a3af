"""Which ranges of a table an export reads."""

from __future__ import annotations

import json
from pathlib import Path

from django_pgqueue.spark.export.job import export
from django_pgqueue.spark.export.plan import make_plan
from django_pgqueue.spark.export.task import ExportOptions
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.source import Source
from tests.spark.rows import DAY, fill_archive, fill_dead_letters
from tests.spark.test_export import ARCHIVE, LETTERS, Database, expected, ids
from tests.support.waiting import eventually

PARTITION = f"{ARCHIVE}_{DAY:%Y%m%d}"


def test_the_ranges_cover_each_block_once_and_none_is_large(source: Source, database: Database) -> None:
    fill_archive(database, 5000)
    plan = make_plan(database, {}, {}, range_bytes=100_000)
    [partition] = [part for part in plan.partitions if part.blocks]

    counted = [
        database.execute(f"SELECT count(*) FROM ({statement}) AS n").fetchone()[0]
        for task in plan.tasks
        if task.table == "archive"
        for statement in task.statements
    ]

    assert sum(counted) == 5000
    assert len(counted) >= partition.bytes // 100_000
    assert max(counted) < 1000


def test_of_a_day_that_is_in_the_lake_only_the_ranges_with_something_new_are_read(
    source: Source, database: Database, lake: Path
) -> None:
    fill_archive(database, 5000)
    export(source, lake)
    fill_archive(database, 3)

    state = Lake.open(lake).state
    plan = make_plan(database, state, Lake.open(lake).horizons, range_bytes=100_000)
    statements = [statement for task in plan.tasks if task.table == "archive" for statement in task.statements]

    assert [*state["open_days"]] == [DAY.isoformat()]
    assert 1 <= len(statements) <= 2
    assert export(source, lake, ExportOptions(range_bytes=100_000)).rows["archive"] == 3
    assert ids(lake) == expected(database)


def test_dead_letters_without_statistics_make_as_few_files_as_with_them(
    source: Source, database: Database, lake: Path
) -> None:
    """A database that was just restored has no statistics, and those of a table that was empty say nothing."""
    files = {}
    for statistics in ("none", "of the empty table", "of all"):
        database.execute(f"TRUNCATE {LETTERS}")
        if statistics == "of the empty table":
            database.execute(f"VACUUM ANALYZE {LETTERS}")
        fill_dead_letters(database, 8000)
        if statistics == "of all":
            database.execute(f"ANALYZE {LETTERS}")
        summary = export(source, lake.with_name(statistics))
        assert summary.rows["dead_letter"] == 8000
        files[statistics] = summary.files

    assert files["none"] == files["of the empty table"] == files["of all"] <= 4


def test_an_export_of_a_few_new_rows_reads_the_open_day_once(source: Source, database: Database, lake: Path) -> None:
    fill_archive(database, 20_000)
    export(source, lake)
    fill_archive(database, 5)
    [blocks] = database.execute(f"SELECT pg_relation_size('{PARTITION}') / 8192").fetchone()
    before = blocks_read(database)

    assert export(source, lake).rows["archive"] == 5

    assert blocks_read(database) - before < 1.2 * blocks
    assert ids(lake) == expected(database)


def test_a_range_is_read_only_where_its_new_rows_are(source: Source, database: Database, lake: Path) -> None:
    """A late commit leaves its rows in the middle of the day."""
    fill_archive(database, 3000)
    export(source, lake)
    [size] = database.execute(f"SELECT pg_relation_size('{PARTITION}')").fetchone()
    database.execute(f"DELETE FROM {PARTITION} WHERE ctid = '(20,3)'::tid")
    database.execute(f"VACUUM {PARTITION}")
    fill_archive(database, 1)
    assert database.execute(f"SELECT pg_relation_size('{PARTITION}')").fetchone() == (size,)
    fill_archive(database, 5000)

    assert export(source, lake).rows["archive"] == 5001
    assert {*expected(database)} <= {*ids(lake)}


def blocks_read(database: Database) -> int:
    """How many blocks of the day's partition all sessions that have ended have read."""
    sql = f"""
        SELECT heap_blks_read + heap_blks_hit FROM pg_statio_all_tables WHERE relid = '{PARTITION}'::regclass
            AND NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'pgqueue spark')
    """
    database.execute("SELECT pg_stat_force_next_flush()")
    return eventually(lambda: database.execute(sql).fetchone())[0]


def test_ranges_are_read_by_place_and_dead_letters_by_their_index(source: Source, database: Database) -> None:
    fill_archive(database, 20000)
    fill_dead_letters(database, 5000, xid="(1 + i / 10)::text::xid8")
    database.execute(f"ANALYZE {ARCHIVE}, {LETTERS}")
    plan = make_plan(database, {}, {}, range_bytes=100_000)
    # The last range of each.
    statements = {task.table: task.statements[-1] for task in plan.tasks}

    assert "Tid Range Scan" in explained(database, statements["archive"])
    assert "pgqueue_dead_letter_xid" in explained(database, statements["dead_letter"])


def explained(database: Database, statement: str) -> str:
    return json.dumps(database.execute(f"EXPLAIN (FORMAT JSON) {statement}").fetchone()[0])
