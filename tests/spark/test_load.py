"""Loading: what the lake computed is what the admin's table holds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from django_pgqueue.spark import schema
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.load import COLUMNS, Loaded, load_metrics
from django_pgqueue.spark.source import Source
from tests.spark.truth import by_key, lake_metrics
from tests.support.sessions import Session as Database

NASTY = 'a/b=c,"d"\t\\N\n%20é\'; --'
NOW = datetime(2026, 3, 20, tzinfo=UTC)


def make_metrics(lake: Path, day: str, rows: int = 1, grain: str = "hour", **values: Any) -> None:
    """Rows of one hour of a day, as a rollup leaves them."""
    counts = {column.name: 1 for column in schema.TABLES["metrics"] if column.type == schema.BIG}
    row = {
        "bucket_at": datetime.fromisoformat(f"{day}T10:00+00:00"),
        "queue": "default",
        **counts,
        "run_seconds": 1.5,
        "retry_seconds": 0.5,
        "retries_by_reason": [("ValueError", 2)],
        "dead_by_reason": [],
        **values,
    }
    wanted = schema.arrow_schema("metrics")
    level = "queue" if values.get("channel", "") is None else "handler" if "handler" in values else "channel"
    made = [row | {"level": level, "channel": f"tenant {n}"} | values for n in range(rows)]
    table = pa.Table.from_pylist(made, schema=wanted)
    opened = Lake.open(lake, create=True)
    with opened.writing() as writing:
        partition = f"grain={grain}/day={day}"
        pq.write_table(table.drop_columns("grain"), path := writing.stage("metrics", partition))
        replaced = [file for file in opened.files("metrics") if file.partition == partition]
        writing.commit("metrics", "rollup", [writing.staged(path)], replaced)


def loaded_metrics(database: Database) -> dict[Any, Any]:
    return by_key(database.execute(f"SELECT {', '.join(COLUMNS)} FROM pgqueue_queue_metric").fetchall())


def test_the_table_holds_what_the_lake_holds(source: Source, database: Database, lake: Path) -> None:
    make_metrics(lake, "2026-03-14", 3, queue=NASTY, handler=NASTY, dead_by_reason=[(NASTY, 7)], wait_p50_seconds=0.1)
    make_metrics(lake, "2026-03-15", grain="day", channel=None)

    assert load_metrics(source, Lake.open(lake), now=NOW) == Loaded(days=2, rows=4)

    assert loaded_metrics(database) == lake_metrics(lake)


def test_only_days_that_changed_are_loaded_again(source: Source, database: Database, lake: Path) -> None:
    make_metrics(lake, "2026-03-14", 3)
    make_metrics(lake, "2026-03-15", 2)
    load_metrics(source, Lake.open(lake), now=NOW)
    make_metrics(lake, "2026-03-14", 1)

    assert load_metrics(source, Lake.open(lake), now=NOW) == Loaded(days=1, rows=1)
    assert load_metrics(source, Lake.open(lake), now=NOW) == Loaded()
    assert loaded_metrics(database) == lake_metrics(lake)
    assert load_metrics(source, Lake.open(lake), everything=True, now=NOW) == Loaded(days=2, rows=3)
    assert loaded_metrics(database) == lake_metrics(lake)


def test_a_grain_that_is_asked_for_later_is_loaded_whole(source: Source, database: Database, lake: Path) -> None:
    make_metrics(lake, "2026-03-14", 3)
    make_metrics(lake, "2026-03-14", 5, grain="minute")
    load_metrics(source, Lake.open(lake), now=NOW)
    assert len(loaded_metrics(database)) == 3

    load_metrics(source, Lake.open(lake), ["minute", "hour"], now=NOW)

    assert loaded_metrics(database) == lake_metrics(lake)


def test_old_metrics_go_from_the_database_and_stay_in_the_lake(source: Source, database: Database, lake: Path) -> None:
    make_metrics(lake, "2026-03-14", 3)
    make_metrics(lake, "2026-03-18", 2)
    load_metrics(source, Lake.open(lake), now=NOW)

    loaded = load_metrics(source, Lake.open(lake), keep=timedelta(days=3), everything=True, now=NOW)

    assert loaded == Loaded(days=1, rows=2, expired=3)
    assert {key[1].day for key in loaded_metrics(database)} == {18}
    assert len(lake_metrics(lake)) == 5


def test_a_column_that_an_older_file_does_not_have_is_null(source: Source, database: Database, lake: Path) -> None:
    make_metrics(lake, "2026-03-14", total_max_seconds=2.0)
    opened = Lake.open(lake)
    with opened.writing() as writing:
        [file] = opened.paths("metrics")
        path = writing.stage("metrics", "grain=hour/day=2026-03-14")
        pq.write_table(pq.read_table(file, partitioning=None).drop_columns("total_max_seconds"), path)
        writing.commit("metrics", "rollup", [writing.staged(path)], opened.files("metrics"))

    assert load_metrics(source, opened, ["hour"], now=NOW).rows == 1

    assert database.execute("SELECT total_max_seconds, run_seconds FROM pgqueue_queue_metric").fetchall() == [
        (None, 1.5)
    ]


def test_a_day_that_cannot_be_read_stays_as_it_was_loaded(source: Source, database: Database, lake: Path) -> None:
    make_metrics(lake, "2026-03-14", 3)
    load_metrics(source, Lake.open(lake), now=NOW)
    before = loaded_metrics(database)
    make_metrics(lake, "2026-03-14", 5)
    [path] = Lake.open(lake).paths("metrics")
    path.write_bytes(path.read_bytes()[:-20])

    with pytest.raises(PipelineError, match=path.name):
        load_metrics(source, Lake.open(lake), now=NOW)

    assert loaded_metrics(database) == before
    assert Lake.open(lake).note("loaded")["hour"] < Lake.open(lake).delta("metrics").version()


def test_a_database_without_the_table_is_one_clear_line(source: Source, database: Database, lake: Path) -> None:
    make_metrics(lake, "2026-03-14")
    database.execute("ALTER TABLE pgqueue_queue_metric RENAME TO moved")
    try:
        with pytest.raises(PipelineError, match='"pgqueue_queue_metric" does not exist') as raised:
            load_metrics(source, Lake.open(lake), now=NOW)
    finally:
        database.execute("ALTER TABLE moved RENAME TO pgqueue_queue_metric")
    assert "\n" not in str(raised.value)
