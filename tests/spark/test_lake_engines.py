"""DuckDB, pandas, pyarrow and polars read the folder of a table as it is: rows, types, days, while it is written."""

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

from django_pgqueue.spark import schema
from django_pgqueue.spark.cli import main
from tests.spark.rows import DAY, fill_archive
from tests.spark.test_lake_readers import (
    AFTER,
    BEFORE,
    killed_at_each_step,
    make_lake,
    replace_again_and_again,
)

DAYS = [DAY + timedelta(days=number) for number in range(3)]


def read_with_duckdb(folder: Path, columns: str = "*", day: date | None = None) -> pa.Table:
    where = f"WHERE day = '{day}'" if day else ""
    with duckdb.connect() as connection:
        return connection.sql(f"SELECT {columns} FROM read_parquet('{folder}/**/*.parquet') {where}").to_arrow_table()


def read_with_pandas(folder: Path, columns: str = "*", day: date | None = None) -> pa.Table:
    wanted = None if columns == "*" else columns.split(", ")
    filters = [("day", "==", str(day))] if day else None
    frame = pd.read_parquet(folder, columns=wanted, filters=filters, dtype_backend="pyarrow")
    return pa.Table.from_pandas(frame, preserve_index=False)


def read_with_pyarrow(folder: Path, columns: str = "*", day: date | None = None) -> pa.Table:
    wanted = None if columns == "*" else columns.split(", ")
    condition = ds.field("day") == str(day) if day else None
    return ds.dataset(folder, partitioning="hive").to_table(wanted, filter=condition)


def read_with_polars(folder: Path, columns: str = "*", day: date | None = None) -> pa.Table:
    frame = pl.scan_parquet(folder, hive_partitioning=True, missing_columns="insert", extra_columns="ignore")
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
def test_a_reader_has_the_types_of_the_columns(name: str, table: str, tmp_path: Path) -> None:
    columns = pa.schema([field for field in schema.arrow_schema(table) if field.name != "grain"])
    folder = tmp_path / table / ("grain=hour/day=2026-03-14" if table == "metrics" else "day=2026-03-14")
    folder.mkdir(parents=True)
    row = {field.name: value(field.type) for field in columns}
    pq.write_table(pa.Table.from_pylist([row], columns), folder / "1.parquet")
    found = READERS[name](tmp_path / table)

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
    later = made.path / "archive" / "day=2026-03-16"
    later.mkdir()
    (later / "1.parquet").write_bytes(b"no Parquet")

    assert ids(READERS[name](lake / "archive", "id", DAY)) == BEFORE
    with pytest.raises(Exception, match=r"(?i)parquet|magic|footer"):
        READERS[name](lake / "archive", "id")


@pytest.mark.parametrize("change", ["add", "3 by 1", "3 compact"])
def test_all_readers_see_each_row_once_whenever_a_run_is_killed(change: str, tmp_path: Path) -> None:
    def read_with_all(folder: Path) -> list[int]:
        found = [ids(read(folder, "id")) for read in READERS.values()]
        assert found == [found[0]] * len(found)
        assert len(set(found[0])) == len(found[0]) or change == "add"
        return found[0]

    steps = list(killed_at_each_step(change, tmp_path, read_with_all))

    assert steps[0][1] == BEFORE
    for is_committed, seen, settled in steps:
        assert seen[: len(BEFORE)] == BEFORE or seen == AFTER
        assert seen == settled or not is_committed


@every_reader
def test_a_reader_sees_a_day_once_while_it_is_replaced_again_and_again(name: str, lake: Path) -> None:
    made = make_lake(lake, 1)
    seen = []
    with ThreadPoolExecutor(1) as pool, made.writing() as writing:
        written = pool.submit(replace_again_and_again, writing, (1, 1))
        while not written.done():
            try:
                seen.append(ids(READERS[name](lake / "archive", "id")))
            except (OSError, duckdb.Error, pl.exceptions.PolarsError, pa.ArrowInvalid):
                # The folder was exchanged after it was listed, or while: then pyarrow finds no file, and so no column.
                # A reader may fail, but it shows no wrong rows.
                continue
        written.result()

    assert len(seen) > 3
    assert all(rows in (BEFORE, AFTER) for rows in seen)
