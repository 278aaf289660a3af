"""Asks the ledger of bulk enqueues, before a frame is computed for nothing."""

from __future__ import annotations

from django_pgqueue.spark.fetch import only
from django_pgqueue.spark.source import Source

DONE = "SELECT EXISTS (SELECT FROM pgqueue_ingest AS i WHERE i.job = %s)"


def is_done(job: str, source: str | None = None) -> bool:
    """Return whether the bulk enqueue with the option ``job`` was done.

    ``source``: the database, as the option of the data source. Spark computes the whole frame of a job that is run
    again, although nothing of it is enqueued: ask first. Raises PipelineError.
    """
    database = Source.from_environment() if source is None else Source.parse(source)
    with database.connect() as connection, database.errors():
        [done] = only(connection.execute(DONE, [job]))
    return bool(done)
