"""The examples for readers of the lake: the page, and the project for dbt, whose SQL DuckDB runs."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from deltalake import DeltaTable

from django_pgqueue.spark import schema
from django_pgqueue.spark.lake import Lake
from tests.support.markdown import DOCS, blocks, page
from tests.support.paths import REPOSITORY

PAGE = "docs/how-to/read-the-lake.md"
PROJECT = REPOSITORY / "examples" / "dbt"
DAYS = ["2026-03-14", "2026-03-15"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A lake with ten messages a day, in two channels, that waited for 0 to 9 seconds."""
    for number, day in enumerate(DAYS):
        due = datetime.fromisoformat(day).replace(tzinfo=UTC)
        rows = [
            {"id": 100 * number + n, "queue": "default", "channel": f"tenant {n % 2}", "outcome": "completed",
             "dequeue_at": due, "leased_at": due + timedelta(seconds=n)}
            for n in range(10)
        ]  # fmt: skip
        with Lake.open(tmp_path / "lake", create=True).writing() as writing:
            for table in ("archive", "dead_letter"):
                path = writing.stage(table, f"day={day}")
                pq.write_table(pa.Table.from_pylist(rows, schema.arrow_schema(table)), path)
                writing.commit(table, "test", [writing.staged(path)])
    return tmp_path / "lake"


def test_the_examples_of_the_page_run(folder: Path) -> None:
    [block] = [block for block in blocks(DOCS / "how-to" / "read-the-lake.md") if "spark" in block.words]
    exec(compile("\n" * (block.line - 1) + block.text, PAGE, "exec"), {"folder": str(folder)})


def test_the_page_has_each_table_with_columns_that_exist() -> None:
    keys = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|", page(PAGE), re.MULTILINE))

    assert set(keys) == set(schema.TABLES)
    for table, key in keys.items():
        assert set(re.findall(r"`(\w+)`", key)) <= {*schema.arrow_schema(table).names, "grain"}


def test_the_project_for_dbt_names_tables_and_columns_that_exist() -> None:
    [source] = yaml.safe_load((PROJECT / "models" / "lake.yml").read_text())["sources"]
    for table in source["tables"]:
        assert {column["name"] for column in table["columns"]} <= set(schema.arrow_schema(table["name"]).names)
    project, profiles = (yaml.safe_load((PROJECT / name).read_text()) for name in ("dbt_project.yml", "profiles.yml"))
    assert profiles[project["profile"]]["outputs"]["dev"]["type"] == "duckdb"


def test_the_model_of_the_project_counts_messages_and_measures_their_wait(folder: Path) -> None:
    [source] = yaml.safe_load((PROJECT / "models" / "lake.yml").read_text())["sources"]
    [archive] = [table for table in source["tables"] if table["name"] == "archive"]
    where = archive["config"]["meta"]["delta_table_path"].replace("{{ env_var('LAKE') }}", str(folder))
    model = (PROJECT / "models" / "channel_day.sql").read_text()
    sql = re.sub(r"\{\{ source\('lake', '(\w+)'\) \}\}", r"\1", model)
    with duckdb.connect() as connection:
        connection.register("archive", DeltaTable(where).to_pyarrow_dataset())
        rows = connection.sql(sql).fetchall()

    assert Counter(
        (str(day), channel, settled, completed) for day, _, channel, settled, completed, _ in rows
    ) == Counter((day, f"tenant {n}", 5, 5) for day in DAYS for n in range(2))
    assert {(channel, wait) for _, _, channel, _, _, wait in rows} == {("tenant 0", 8.0), ("tenant 1", 9.0)}
