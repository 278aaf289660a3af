"""Forecasts the next day: the messages that will come, by the hour of the day, and those that will wait."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa

from django_pgqueue.spark import schema
from django_pgqueue.spark.lake import ParquetLake
from django_pgqueue.spark.transforms.queries import query
from django_pgqueue.spark.transforms.readable import unreadable_as_pipeline_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from django_pgqueue.spark.source import Source

HISTORY = timedelta(days=28)
HOURS = 24
LIVE = pa.schema([("queue", schema.TEXT), ("channel", schema.TEXT), ("hour_at", schema.TIME), ("messages", schema.BIG)])
# Leased messages count as waiting, because they are not done. Overdue messages are due now.
WAITING = """
SELECT c.queue::text AS queue, c.name::text AS channel,
    date_trunc('hour', greatest(m.dequeue_at, '{now}'::timestamptz)) AS hour_at, count(*) AS messages
FROM pgqueue_message AS m
JOIN pgqueue_channel AS c ON c.id = m.channel_id
WHERE m.dequeue_at < '{now}'::timestamptz + interval '{hours} hours'
GROUP BY 1, 2, 3
"""


def write_forecast(
    spark: SparkSession, lake: ParquetLake, source: Source | None = None, now: datetime | None = None
) -> int:
    """Write the lake's forecast from ``now`` on (default: the clock's time), in place of the forecast of that day.

    The backlog at its start is that of ``source``; without ``source``, nothing waits. Returns the number of rows.
    Raises PipelineError.
    """
    now = now or datetime.now(UTC)
    since = now - HISTORY
    with lake.writing() as writing, unreadable_as_pipeline_errors():
        days = {(since + timedelta(days=n)).date() for n in range(HISTORY.days + 1)}
        history = (
            lake.read(spark, "metrics", days)
            .where("grain = 'hour' AND channel IS NOT NULL AND handler IS NULL")
            .where(f"bucket_at >= TIMESTAMP '{since:%Y-%m-%d %H:%M:%S}+00:00'")
        )
        frame = spark.sql(
            query("forecast"),
            args={"now": now, "until": _exported_at(lake, now), "hours": HOURS},
            history=history,
            live=spark.createDataFrame(waiting(source, now)),
        )
        frame.coalesce(1).write.partitionBy("day").parquet(f"{writing.folder}/forecast", compression="zstd")
        files = writing.collect("forecast")
        writing.commit("forecast", files, replace=[("forecast", f"day={now.date()}")])
    return sum(file.rows for file in files)


def waiting(source: Source | None, now: datetime) -> pa.Table:
    """Return the messages that are due in the next hours, by channel and hour."""
    if source is None:
        return LIVE.empty_table()
    statement = WAITING.format(now=now.isoformat(), hours=HOURS)
    return pa.Table.from_batches(source.batches(statement, LIVE), LIVE)


def _exported_at(lake: ParquetLake, now: datetime) -> datetime:
    exported = lake.state.get("exported_at")
    return min(datetime.fromisoformat(exported), now) if exported else now
