"""DuckDB, pandas, pyarrow and polars read the tables: rows, types, days, while they are written."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import psycopg
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from django_pgqueue.spark.cli import main
from tests.spark.rows import DAY, fill_archive
from tests.spark.test_lake_readers import AFTER, BEFORE, make_lake, replace_again_and_again

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
