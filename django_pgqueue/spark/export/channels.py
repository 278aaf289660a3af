"""Take a snapshot of the channels' configuration when it has changed."""

from __future__ import annotations

from typing import Any

import psycopg
import pyarrow as pa

from django_pgqueue.spark import schema
from django_pgqueue.spark.export.horizon import Horizon
from django_pgqueue.spark.lake import StagedFile
from django_pgqueue.spark.lake.rows import open_writer
from django_pgqueue.spark.lake.writing import Writing
from django_pgqueue.spark.source import Source, only

DIGEST = "SELECT count(*) || ':' || coalesce(sum(hashtextextended(c::text, 0)), 0) FROM pgqueue_channel AS c"


def digest(connection: psycopg.Connection[Any]) -> str:
    """Return a text that changes when any channel changes.

    The caller reads it before the snapshot, so that a change in between shows in the next run.
    """
    text: str = only(connection.execute(DIGEST))[0]
    return text


def take_snapshot(source: Source, query: str, writing: Writing, horizon: Horizon) -> StagedFile:
    """Write all channels to a new file of the lake, with the time of the horizon in each row."""
    path = writing.stage("channel", f"day={horizon.now.date()}")
    columns = schema.arrow_schema("channel")
    with open_writer(path, columns) as writer:
        for batch in source.read([query], columns):
            at = pa.array([horizon.now] * batch.num_rows, schema.TIME)
            writer.write_batch(batch.set_column(0, columns.field(0), at))
    return writing.staged(path)
