"""The source: its address, its identity, and the rows that it reads."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from django_pgqueue.spark import schema
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.source import Source, SourceLost, TableGone

CANARY = "s3cr3t canary'\\"
PASSWORD = "s3cr3t%20canary%27%5C"
NASTY = [
    "",
    "NULL",
    "nan",
    "\\N",
    '"',
    "'",
    "a\r\nb",
    "\u2028",
    "\U0001f600",
    "\x01\x7f",
    " x ",
    "é" * 1000,
    "{}",
    None,
]


def test_a_uri_keywords_and_a_service_are_understood() -> None:
    assert dict(Source.parse("postgresql://me@db.example:5433/shop").parameters)["host"] == "db.example"
    assert dict(Source.parse("host=db.example dbname='my shop'").parameters)["dbname"] == "my shop"
    assert dict(Source.parse("service=shop").parameters)["service"] == "shop"


def test_without_a_name_it_is_what_the_variables_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGQUEUE_SOURCE", raising=False)
    monkeypatch.setenv("PGHOST", "db.example")
    monkeypatch.setenv("PGPASSWORD", CANARY)

    source = Source.from_environment()

    # They travel with it: the workers of a cluster have other variables.
    assert dict(source.parameters)["host"] == "db.example"
    assert dict(source.parameters)["password"] == CANARY
    assert CANARY not in str(source)


def test_pgqueue_source_comes_before_the_variables_of_libpq(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "db.example")
    monkeypatch.setenv("PGQUEUE_SOURCE", "host=other.example")

    assert dict(Source.from_environment().parameters)["host"] == "other.example"


def test_it_shows_no_password() -> None:
    source = Source.parse(f"postgresql://me:{PASSWORD}@127.0.0.1:1/shop")

    assert dict(source.parameters)["password"] == CANARY
    for shown in (str(source), repr(source), f"{source}", f"{[source]}"):
        assert "s3cr3t" not in shown
        assert "127.0.0.1" in shown


@pytest.mark.parametrize("text", [f"postgresql://me:{PASSWORD}%zz@host/db", f"password={PASSWORD} host", "nonsense"])
def test_a_wrong_name_is_one_line_that_does_not_repeat_it(text: str) -> None:
    with pytest.raises(PipelineError) as caught:
        Source.parse(text)

    assert "postgresql://user@host" in str(caught.value)
    assert "s3cr3t" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_server_that_cannot_be_reached_is_one_line_without_the_password() -> None:
    source = Source.parse(f"postgresql://me:{PASSWORD}@127.0.0.1:1/shop")

    with pytest.raises(SourceLost) as caught:
        list(source.read(["SELECT 1"], pa.schema([("a", pa.int32())])))

    assert "Connection refused" in str(caught.value)
    assert "s3cr3t" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_table_that_is_gone_is_distinguished_from_other_errors(source: Source) -> None:
    columns = pa.schema([("a", pa.int32())])

    with pytest.raises(TableGone):
        list(source.read(["SELECT 1 AS a FROM gone"], columns))
    with pytest.raises(PipelineError, match="division by zero"):
        list(source.read(["SELECT 1/0 AS a"], columns))


def test_a_session_that_is_ended_while_it_reads_is_a_lost_source(
    source: Source, database: psycopg.Connection[Any]
) -> None:
    sql = "SELECT g AS a, repeat('x', 1000)::text AS b FROM generate_series(1, 1000000) AS g"
    batches = source.read([sql], pa.schema([("a", pa.int32()), ("b", pa.string())]))
    next(batches)

    database.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE query LIKE '%repeat(''x''%' AND pid <> pg_backend_pid()"
    )

    with pytest.raises(SourceLost):
        list(batches)


def test_each_value_is_read_as_psycopg_reads_it(source: Source, database: psycopg.Connection[Any]) -> None:
    database.execute("DROP TABLE IF EXISTS pgqueue_test_nasty")
    database.execute(
        "CREATE TABLE pgqueue_test_nasty (i bigint, s smallint, n integer, f float8, t text, b bytea, z timestamptz)"
    )
    times = [None, datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)]
    for i, text in enumerate(NASTY):
        body = None if i % 3 == 0 else bytes(range(256)) * i
        database.execute(
            "INSERT INTO pgqueue_test_nasty VALUES (%s, %s, %s, %s, %s, %s, %s)",
            [2**62 + i, -i, None if i % 2 else i, i / 3, text, body, times[i % 3]],
        )
    types = [pa.int64(), pa.int16(), pa.int32(), pa.float64(), pa.string(), pa.binary(), schema.TIME]
    columns = pa.schema(list(zip("isnftbz", types, strict=True)))
    sql = "SELECT * FROM pgqueue_test_nasty ORDER BY i"

    read = pa.Table.from_batches(source.read([sql], columns), columns)
    rows = database.execute(sql).fetchall()
    database.execute("DROP TABLE pgqueue_test_nasty")

    assert read["t"].to_pylist() == NASTY
    assert [tuple(row.values()) for row in read.to_pylist()] == rows


def test_a_batch_is_bounded_by_bytes_however_large_its_rows(source: Source) -> None:
    sql = "SELECT g AS a, repeat('x', 1000000)::text AS b FROM generate_series(1, 40) AS g"
    columns = pa.schema([("a", pa.int32()), ("b", pa.string())])

    batches = list(source.read([sql], columns, batch_bytes=4_000_000))

    assert sum(batch.num_rows for batch in batches) == 40
    assert max(batch.nbytes for batch in batches) < 6_000_000


def test_it_knows_which_database_it_is(source: Source, database: psycopg.Connection[Any]) -> None:
    system, name = source.identity()

    assert system.isdigit()
    assert name.split()[1] == database.info.dbname
