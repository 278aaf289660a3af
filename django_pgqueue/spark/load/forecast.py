"""Replace the forecast in the database by the newest one of the lake."""

from __future__ import annotations

from datetime import datetime

from django_pgqueue.spark import schema
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.lake.tables import state_of
from django_pgqueue.spark.load.metrics import copy_into, read_rows
from django_pgqueue.spark.source import Source, only

TABLE = "pgqueue_backlog_forecast"
LOADED = "SELECT count(*), max(f.computed_at) FROM pgqueue_backlog_forecast AS f"
COLUMNS = [column.name for column in schema.TABLES["forecast"]]


def load_forecast(source: Source, lake: Lake) -> int | None:
    """Load the lake's newest forecast into the database.

    Returns the number of rows; None when the database has this forecast. Raises PipelineError.
    """
    made = state_of(lake.delta("forecast"))
    files = lake.newest("forecast") if made.get("rows") != 0 else []
    application = "pgqueue spark rollup"
    with source.connect(application_name=application) as connection, source.errors(), connection.transaction():
        [rows, computed_at] = only(connection.execute(LOADED))
        if made.get("rows") == rows and (not rows or datetime.fromisoformat(made["computed_at"]) == computed_at):
            return None
        connection.execute("DELETE FROM pgqueue_backlog_forecast")
        return copy_into(connection, TABLE, COLUMNS, read_rows(files, COLUMNS))
