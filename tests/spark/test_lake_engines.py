"""DuckDB, pandas, pyarrow and polars read the tables: rows, types, days, while they are written."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import psycopg
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from django_pgqueue.spark import schema
from django_pgqueue.spark.cli import main
from django_pgqueue.spark.lake import Lake
from tests.spark.rows import DAY, fill_archive
from tests.spark.test_lake_readers import (
    AFTER,
    BEFORE,
    make_lake,
    replace_again_and_again,
    stage,
)

DAYS = [DAY + timedelta(days=number) for number in range(3)]


def read_with_duckdb(folder: Path, columns: str = "*", day: date | None = None) -> pa.Table:
    where = f"WHERE day = '{day}'" if day else ""
    with duckdb.connect() as connection:
        connection.register("rows", DeltaTable(folder).to_pyarrow_dataset())
        return connection.sql(f"SELECT {columns} FROM rows {where}").to_arrow_table()


def read_with_pandas(folder: Path, columns: str = "*", day: date | None = None) -> pa.Table:
    frame = DeltaTable(folder).to_pandas(
        columns=None if columns == "*" else columns.split(", "),
        filters=[("day", "==", day)] if day else None,
        types_mapper=pd.ArrowDtype,
    )
    return pa.Table.from_pandas(frame, preserve_index=False)


def read_with_pyarrow(folder: Path, columns: str = "*", day: date | None = None) -> pa.Table:
    wanted = None if columns == "*" else columns.split(", ")
    condition = ds.field("day") == day if day else None
    return DeltaTable(folder).to_pyarrow_dataset().to_table(wanted, filter=condition)


def read_with_polars(folder: Path, columns: str = "*", day: date | None = None) -> pa.Table:
    frame = pl.scan_delta(str(folder))
    if day:
        frame = frame.filter(pl.col("day") == day)
    return (frame if columns == "*" else frame.select(columns.split(", "))).collect().to_arrow()


READERS: dict[str, Callable[..., pa.Table]] = {
    "duckdb": read_with_duckdb,
    "pandas": read_with_pandas,
    "pyarrow": read_with_pyarrow,
    "polars": read_with_polars,
}
every_reader = pytest.mark.parametrize("name", READERS)


def ids(table: pa.Table) -> list[int]:
    found: list[int] = table["id"].to_pylist()
    return sorted(found)


@every_reader
def test_a_reader_finds_the_rows_of_the_database_with_their_values(
    name: str, dsn: str, database: psycopg.Connection[Any], lake: Path
) -> None:
    for day in DAYS:
        fill_archive(database, 500, day, body="decode('00ff', 'hex')", result='\'{"done": "Ä"}\'')
        assert main(["export", "--lake", str(lake), "--source", dsn]) == 0
    wanted = "id, channel, payload, body, priority, attempts, leased_at, archived_at, result, redriven_from"
    rows = database.execute(
        "SELECT id, channel, payload::text, body, priority, attempts, leased_at, archived_at, result::text,"
        " redriven_from, (archived_at AT TIME ZONE 'UTC')::date FROM pgqueue_archived_message ORDER BY id"
    ).fetchall()
    found = READERS[name](lake / "archive", f"{wanted}, day").sort_by("id").to_pylist()

    assert [(*[row[column] for column in wanted.split(", ")], str(row["day"])) for row in found] == [
        (*row[:-1], str(row[-1])) for row in rows
    ]
    assert len(rows) == 1500


@every_reader
@pytest.mark.parametrize("table", schema.TABLES)
def test_a_reader_has_the_types_of_the_columns(name: str, table: str, lake: Path) -> None:
    columns = pa.schema([field for field in schema.arrow_schema(table) if field.name != "grain"])
    row = {field.name: value(field.type) for field in columns}
    with Lake.open(lake, create=True).writing() as writing:
        path = writing.stage(table, "grain=hour/day=2026-03-14" if table == "metrics" else "day=2026-03-14")
        pq.write_table(pa.Table.from_pylist([row], columns), path)
        writing.commit(table, "test", [writing.staged(path)])
    found = READERS[name](lake / table)

    for field in columns:
        assert plain(found.schema.field(field.name).type) == plain(field.type), field.name
    assert str(found["day"][0].as_py()) == "2026-03-14"


def value(kind: pa.DataType) -> Any:
    """Return a value of this type."""
    match str(kind):
        case "string":
            return "Ä"
        case "binary":
            return b"\0"
        case "bool":
            return True
        case text if text.startswith("timestamp"):
            return datetime(2026, 3, 14, 1, 2, 3, 4, UTC)
        case text if text.startswith("map"):
            return [("x", 1)]
    return 1


def plain(kind: pa.DataType) -> str:
    """Return the type without its width of offsets, which each reader chooses; a map is a list of pairs in some."""
    text = str(kind).replace("large_", "").replace("_view", "")
    return "list of pairs" if text.startswith(("map<", "list<")) else text


@every_reader
def test_a_reader_that_asks_for_a_day_opens_no_file_of_another(name: str, lake: Path) -> None:
    made = make_lake(lake, 1)
    with made.writing() as writing:
        [other] = stage(writing, AFTER, 1, "day=2026-03-16")
        writing.commit("archive", "test", [other])
    damaged = made.paths("archive")[1]
    damaged.write_bytes(bytes(damaged.stat().st_size))

    assert ids(READERS[name](lake / "archive", "id", DAY)) == BEFORE
    with pytest.raises(Exception, match=r"(?i)parquet|magic|footer"):
        READERS[name](lake / "archive", "id")


@every_reader
def test_a_reader_sees_a_day_once_while_it_is_replaced_again_and_again(name: str, lake: Path) -> None:
    made = make_lake(lake, 1)
    seen = []
    with ThreadPoolExecutor(1) as pool, made.writing() as writing:
        written = pool.submit(replace_again_and_again, writing, (1, 1))
        while not written.done():
            seen.append(ids(READERS[name](lake / "archive", "id")))
        written.result()

    assert len(seen) > 3
    assert all(rows in (BEFORE, AFTER) for rows in seen)
