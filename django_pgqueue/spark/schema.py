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

BIG, FLOAT, TEXT, TIME = pa.int64(), pa.float64(), pa.string(), pa.timestamp("us", tz="UTC")
COUNTS = pa.map_(TEXT, BIG)
# By the names of PostgreSQL, and one for numbers by name.
TYPES = {
    "boolean": pa.bool_(), "smallint": pa.int16(), "integer": pa.int32(), "bigint": BIG, "float8": FLOAT, "text": TEXT,
    "bytea": pa.binary(), "timestamptz": TIME, "counts": COUNTS,
}  # fmt: skip
POSTGRESQL = {kind: name for name, kind in TYPES.items()}

# The days of the lake are those that the rules of a message allow. The day before and the day after exist in Python, as
# do their times in each zone.
FIRST_DAY, LAST_DAY = date(2, 1, 1), date(9998, 12, 31)


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


def columns(text: str) -> list[Column]:
    """Return columns from a text such as ``id bigint, backoff_seconds float8 = backoff``, with a source at the end."""
    parts = (each.split() for each in text.split(","))
    return [Column(name, TYPES[kind], source[-1] if source else "") for name, kind, *source in parts]


MESSAGE = columns(
    "id bigint, queue text, channel text, handler text, payload text, body bytea, headers text, priority smallint, "
    "attempts integer, max_attempts integer, created_at timestamptz, dequeue_at timestamptz, leased_at timestamptz"
)
LIFE = columns("state text, errors text, dedupe_key text, worker text, redriven_from bigint, xid bigint")
TABLES: dict[str, list[Column]] = {
    "archive": [
        *MESSAGE,
        *columns("archived_at timestamptz, outcome text, result text"),
        *LIFE,
        *columns("started_at timestamptz, order_key text, limits text, cost integer"),
    ],
    "dead_letter": [
        *MESSAGE,
        *columns("dead_at timestamptz, reason text, details text"),
        *LIFE,
        *columns(
            "backoff_seconds float8 = backoff, backoff_factor float8, "
            "backoff_longest_seconds float8 = backoff_longest, started_at timestamptz, limits text, cost integer, "
            "order_key text, order_place bigint"
        ),
    ],
    "channel": columns(
        "exported_at timestamptz, id bigint, queue text, name text, max_concurrency integer, max_size integer, "
        "full_policy text, release_interval_seconds float8 = release_interval, release_burst integer, weight integer, "
        "context text, paused_at timestamptz, pause_reason text, released_at timestamptz, created_at timestamptz, "
        "changed_at timestamptz, archive text, ordered boolean, on_dead text"
    ),
    "metrics": columns(
        "grain text, bucket_at timestamptz, queue text, channel text, handler text, enqueued bigint, "
        "completed bigint, popped bigint, purged bigint, dropped bigint, cancelled bigint, dead bigint, "
        "attempts bigint, retries bigint, wait_p50_seconds float8, wait_p95_seconds float8, wait_p99_seconds float8, "
        "run_p50_seconds float8, run_p95_seconds float8, run_p99_seconds float8, total_p50_seconds float8, "
        "total_p95_seconds float8, total_p99_seconds float8, run_seconds float8, capacity_share float8, "
        "retry_seconds float8, sla_seconds float8, sla_breaches bigint, retries_by_reason counts, "
        "dead_by_reason counts, level text, total_max_seconds float8"
    ),
}

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
