"""The tables that can be read, their columns, and how PostgreSQL computes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from psycopg import sql
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from django_pgqueue.spark import schema
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.schema import MESSAGE, Column
from django_pgqueue.spark.schema import TABLES as LAKE

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

LIVE = """(
    SELECT m.*, c.queue, c.name AS channel,
        CASE m.status WHEN 1 THEN 'ready' WHEN 2 THEN 'leased' WHEN 3 THEN 'scheduled' END AS status_name
    FROM pgqueue_message AS m LEFT JOIN pgqueue_channel AS c ON c.id = m.channel_id
) AS m"""


@dataclass(frozen=True, slots=True)
class Table:
    """A table that can be read.

    ``name``: its name in PostgreSQL. ``rows``: the FROM clause, when it is more than the table. ``time``: the column
    that the options since and until compare.
    """

    name: str
    columns: Sequence[Column]
    time: str
    rows: str = ""
    channel: str = "channel"


TABLES = {
    "message": Table(
        "pgqueue_message",
        [
            *MESSAGE,
            *schema.columns(
                "status text = status_name, lease_expires_at timestamptz, state text, errors text, dedupe_key text, "
                "worker text, redriven_from bigint, cancelled_at timestamptz, cancel_reason text, order_key text"
            ),
        ],
        "created_at",
        rows=LIVE,
    ),
    "archive": Table("pgqueue_archived_message", LAKE["archive"], "archived_at"),
    "dead_letter": Table(
        "pgqueue_dead_letter",
        [*LAKE["dead_letter"], *schema.columns("redriven_at timestamptz, redriven_to bigint")],
        "dead_at",
    ),
    "channel": Table(
        "pgqueue_channel",
        [column for column in LAKE["channel"] if column.name != "exported_at"],
        "created_at",
        channel="name",
    ),
}
# Columns that a row of LIVE has and the table does not have.
JOINED = {"queue": "varchar", "channel": "varchar", "status_name": "text"}


def source_schema(table: Table) -> StructType:
    """Return the columns of a table as Spark's types."""
    return from_arrow_schema(pa.schema([(column.name, column.type) for column in table.columns]))


def chosen_columns(table: Table, wanted: StructType) -> tuple[list[Column], pa.Schema]:
    """Return the columns that a user's schema names, and the Arrow schema that Spark expects. Raises PipelineError."""
    known = {column.name: column for column in table.columns}
    expected = to_arrow_schema(wanted, timezone="UTC")
    columns = []
    for field in expected:
        if field.name not in known:
            raise PipelineError(f'There is no column "{field.name}" to read; there are {", ".join(known)}.')
        column = known[field.name]
        if not field.type.equals(column.type):
            raise PipelineError(f"The column {column.name} is {column.type} in Arrow, the schema says {field.type}.")
        columns.append(column)
    return columns, expected


def select(table: Table, columns: Sequence[Column], existing: Mapping[str, str], rows: str = "") -> str:
    """Return SELECT … FROM … without conditions. ``existing``: the columns of the database's table, with their types.
    ``rows``: the partition to read, where there is one.
    """
    return schema.select(columns, {**existing, **(JOINED if table.rows else {})}, rows or table.rows or table.name)


def quoted_literal(value: object) -> str:
    """Return the value as quoted SQL text."""
    return sql.Literal(value).as_string(None)
