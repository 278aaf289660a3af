"""Asks the ledger of bulk enqueues, before a frame is computed for nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_pgqueue.spark.source import Source, only

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DONE = "SELECT EXISTS (SELECT FROM pgqueue_ingest AS i WHERE i.job = %s)"


def is_done(job: str, source: str | None = None) -> bool:
    """Return whether the bulk enqueue with the option ``job`` was done.

    ``source``: the database, as the option of the data source. Raises PipelineError.
    """
    database = Source.from_environment() if source is None else Source.parse(source)
    with database.connect() as connection, database.errors():
        [done] = only(connection.execute(DONE, [job]))
    return bool(done)


def enqueue_once(frame: DataFrame, job: str, *, source: str | None = None, **options: str | bool | int | float) -> bool:
    """Enqueue the rows of a frame, unless the job was done before. Then the frame is not computed.

    Spark computes a frame before it asks the data source, so ``frame.write`` computes that of a job that was done, too,
    for nothing. Of two calls at the same time both may compute it, but only one enqueues.

    ``job``: the name of the bulk enqueue; ``source`` and ``options``: as for ``frame.write.format("pgqueue")``.
    Returns False if the job was done before. Raises PipelineError, and the errors of Spark.
    """
    if is_done(job, source):
        return False
    given = {**options, "job": job, **({} if source is None else {"source": source})}
    frame.write.format("pgqueue").options(**given).mode("append").save()
    return True
