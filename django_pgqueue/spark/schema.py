"""The columns of the lake's tables: name, type, and how PostgreSQL computes them.

Columns are only ever added, at the end, nullable: an old file has NULL in a newer column.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# The version of the lake's layout; a lake of another one is refused. 1 was before the tables of Delta.
FORMAT = 2

BOOLEAN = pa.bool_()
SMALL = pa.int16()
INTEGER = pa.int32()
BIG = pa.int64()
FLOAT = pa.float64()
TEXT = pa.string()
BYTES = pa.binary()
TIME = pa.timestamp("us", tz="UTC")
COUNTS = pa.map_(TEXT, BIG)

# The days of the lake are those that the rules of a message allow. The day before and the day after exist in Python, as
# do their times in each zone.
FIRST_DAY, LAST_DAY = date(2, 1, 1), date(9998, 12, 31)

POSTGRESQL = {
    BOOLEAN: "boolean",
    SMALL: "smallint",
    INTEGER: "integer",
    BIG: "bigint",
    FLOAT: "double precision",
    TEXT: "text",
    BYTES: "bytea",
    TIME: "timestamptz",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the lake. ``source``: the column of PostgreSQL that it comes from, when that has another name."""

    name: str
    type: pa.DataType
    source: str = ""

    @property
    def origin(self) -> str:
        return self.source or self.name

    def expression(self, kind: str) -> str:
        """Return SQL that computes the value from a column whose type is ``kind`` in PostgreSQL."""
        name = f'"{self.origin}"'
        if kind == "interval":
            return f"extract(epoch FROM {name})::float8"
        if kind.endswith("[]"):
            return f"array_to_json({name})::text"
        if kind == "xid8":
            return f"{name}::text::bigint"
        if kind.startswith("timestamp"):
            # Arrow has no infinity, and Python no years before 1 and after 9999.
            return (
                f"CASE WHEN {name} IS NOT NULL THEN greatest('{FIRST_DAY} 00:00:00+00', "
                f"least('{LAST_DAY} 23:59:59.999999+00', {name})) END"
            )
        if self.type == TEXT:
            return f"{name}::text"
        return name

    @property
    def absent(self) -> str:
        """Return SQL for a column that this database does not have, or that is left out."""
        return f"NULL::{POSTGRESQL[self.type]}"


MESSAGE = [
    Column("id", BIG),
    Column("queue", TEXT),
    Column("channel", TEXT),
    Column("handler", TEXT),
    Column("payload", TEXT),
    Column("body", BYTES),
    Column("headers", TEXT),
    Column("priority", SMALL),
    Column("attempts", INTEGER),
    Column("max_attempts", INTEGER),
    Column("created_at", TIME),
    Column("dequeue_at", TIME),
    Column("leased_at", TIME),
]

LIFE = [
    Column("state", TEXT),
    Column("errors", TEXT),
    Column("dedupe_key", TEXT),
    Column("worker", TEXT),
    Column("redriven_from", BIG),
    Column("xid", BIG),
]

PERCENTILES = [
    Column(f"{what}_{percentile}_seconds", FLOAT)
    for what in ("wait", "run", "total")
    for percentile in ("p50", "p95", "p99")
]

TABLES: dict[str, list[Column]] = {
    "archive": [
        *MESSAGE,
        Column("archived_at", TIME),
        Column("outcome", TEXT),
        Column("result", TEXT),
        *LIFE,
        Column("started_at", TIME),
        Column("order_key", TEXT),
        Column("limits", TEXT),
        Column("cost", INTEGER),
    ],
    "dead_letter": [
        *MESSAGE,
        Column("dead_at", TIME),
        Column("reason", TEXT),
        Column("details", TEXT),
        *LIFE,
        Column("backoff_seconds", FLOAT, source="backoff"),
        Column("backoff_factor", FLOAT),
        Column("backoff_longest_seconds", FLOAT, source="backoff_longest"),
        Column("started_at", TIME),
        Column("limits", TEXT),
        Column("cost", INTEGER),
        Column("order_key", TEXT),
        Column("order_place", BIG),
    ],
    "channel": [
        Column("exported_at", TIME),
        Column("id", BIG),
        Column("queue", TEXT),
        Column("name", TEXT),
        Column("max_concurrency", INTEGER),
        Column("max_size", INTEGER),
        Column("full_policy", TEXT),
        Column("release_interval_seconds", FLOAT, source="release_interval"),
        Column("release_burst", INTEGER),
        Column("weight", INTEGER),
        Column("context", TEXT),
        Column("paused_at", TIME),
        Column("pause_reason", TEXT),
        Column("released_at", TIME),
        Column("created_at", TIME),
        Column("changed_at", TIME),
        Column("archive", TEXT),
        Column("ordered", BOOLEAN),
        Column("on_dead", TEXT),
    ],
    "metrics": [
        Column("grain", TEXT),
        Column("bucket_at", TIME),
        Column("queue", TEXT),
        Column("channel", TEXT),
        Column("handler", TEXT),
        *(
            Column(name, BIG)
            for name in (
                "enqueued", "completed", "popped", "purged", "dropped", "cancelled", "dead", "attempts", "retries",
            )
        ),
        *PERCENTILES,
        Column("run_seconds", FLOAT),
        Column("capacity_share", FLOAT),
        Column("retry_seconds", FLOAT),
        Column("sla_seconds", FLOAT),
        Column("sla_breaches", BIG),
        Column("retries_by_reason", COUNTS),
        Column("dead_by_reason", COUNTS),
        Column("level", TEXT),
        Column("total_max_seconds", FLOAT),
    ],
}  # fmt: skip

# The tables of PostgreSQL that lake tables are read from, and the column that says the day of a row (UTC).
SOURCES = {"archive": "pgqueue_archived_message", "dead_letter": "pgqueue_dead_letter", "channel": "pgqueue_channel"}
# By which columns the files of a table are divided, where not by day alone.
PARTITIONED = {"metrics": ["grain", "day"]}
DAYS = {"archive": "archived_at", "dead_letter": "dead_at"}


def arrow_schema(table: str) -> pa.Schema:
    """Return the columns of a table of the lake."""
    return pa.schema([(column.name, column.type) for column in TABLES[table]])


def spark_schema(table: str) -> StructType:
    """Return the schema of a table for Spark. pandas is not needed."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(arrow_schema(table))


def select(columns: Iterable[Column], existing: Mapping[str, str], rows: str, without: Collection[str] = ()) -> str:
    """Return SELECT … FROM ``rows``, a table of PostgreSQL, which has these columns and types.

    A column that an older database does not have, and one of ``without``, is NULL.
    """
    values = []
    for column in columns:
        kind = None if column.name in without else existing.get(column.origin)
        values.append(f'{column.absent if kind is None else column.expression(kind)} AS "{column.name}"')
    return f"SELECT {', '.join(values)} FROM {rows}"  # noqa: S608
