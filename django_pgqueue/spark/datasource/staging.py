"""Bulk enqueue in two steps: each task copies into a table of its own, and one transaction at the end enqueues all.

A task that fails, is tried again or runs twice leaves a table that is not named at the end; a job or a batch that is
run again finds itself in the ledger and changes nothing.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import psycopg
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.taskcontext import TaskContext

from django_pgqueue.spark.datasource.refused import InTheWay, refusals_as_pipeline_errors
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.fetch import only
from django_pgqueue.spark.source import Source, SourceLost

if TYPE_CHECKING:
    import pyarrow as pa

    from django_pgqueue.spark.datasource.encoding import RowEncoder

# Seconds between attempts to enqueue: nothing is lost or doubled by one more.
PAUSES_SECONDS = (0.5, 2.0, 8.0)
# JSON has line numbers of its own; they come first.
PLACE = re.compile(r"COPY pgqueue_stage_\d+, line (\d+)(?:, column (\w+))?")


@dataclass(frozen=True, slots=True)
class BulkEnqueue:
    """A bulk enqueue, or a batch of a stream. ``name`` and ``batch`` identify it, so that it is done only once."""

    source: Source
    name: str
    batch: int = 0

    def stage(self, batches: Iterable[pa.RecordBatch], encoder: RowEncoder) -> tuple[int | None, int]:
        """Copy the rows into a stage. Returns its id (None if there are no rows) and the number of rows. Raises
        PipelineError.
        """
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return None, 0
        with self.source.connect() as connection, self.source.errors(), connection.transaction():
            parameters = [self.name, self.batch, json.dumps(encoder.absent)]
            [stage] = only(connection.execute("SELECT pgqueue_ingest_open(%s, %s, %s)", parameters))
            # A worker whose input is not read to its end cannot be used again.
            if stage is None:
                return None, sum(0 for _ in filled)
            rows = 0
            columns = ", ".join(encoder.columns)
            statement = f"COPY pgqueue_stage_{stage} ({columns}) FROM STDIN"
            with self.named(), connection.cursor() as cursor, cursor.copy(statement) as copy:
                for batch in chain([first], filled):
                    rows += batch.num_rows
                    for piece in encoder.pieces(batch):
                        copy.write(piece)
        return stage, rows

    def ingest(self, stages: Sequence[int], messages: int, *, create_channels: bool) -> None:
        """Enqueue the rows of the stages, once. Raises PipelineError."""
        for pause in (*PAUSES_SECONDS, None):
            try:
                self._ingest(stages, messages, create_channels)
                break
            except (SourceLost, InTheWay):
                if pause is None:
                    raise
                time.sleep(pause)
        self.clean()

    def _ingest(self, stages: Sequence[int], messages: int, create_channels: bool) -> None:
        with self.source.connect() as connection, refusals_as_pipeline_errors(self.source):
            rows = connection.execute(
                "SELECT ingested, dropped FROM pgqueue_ingest(%s, %s, %s::bigint[], %s, %s)",
                [self.name, self.batch, list(stages), messages, create_channels],
            )
            ingested, dropped = only(rows)
        if ingested and dropped:
            print(
                f"pgqueue: {dropped} of {messages} messages were dropped: their channels are full (job {self.name}).",
                file=sys.stderr,
            )

    def clean(self) -> None:
        """Remove the stages of this job, and those that other jobs left. The next job repeats a removal that fails."""
        try:
            with self.source.connect() as connection:
                connection.execute("SELECT pgqueue_ingest_clean(%s)", [self.name])
        except (psycopg.Error, PipelineError) as error:
            print(
                f"pgqueue: the stages were not removed; the next job removes them: {self.source.redact(str(error))}",
                file=sys.stderr,
            )

    @contextmanager
    def named(self) -> Iterator[None]:
        """Name the row that PostgreSQL refuses, without its content, which the error repeats."""
        try:
            yield
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            line, column = "?", None
            if match := PLACE.search(error.diag.context or ""):
                line, column = match.groups()
            column = column or error.diag.column_name
            missing = "it is missing" if isinstance(error, psycopg.errors.NotNullViolation) else None
            problem = missing or error.diag.constraint_name or error.diag.message_primary
            task = TaskContext.get()
            place = f"Row {line} of partition {task.partitionId() if task else 0}"
            raise PipelineError(f"{place} cannot be enqueued{f', {column}' if column else ''}: {problem}.") from None


class StagedRows(WriterCommitMessage):
    """The rows that a task has copied; the task passes them to the commit."""

    def __init__(self, name: str, stage: int | None, rows: int) -> None:
        self.name = name
        self.stage = stage
        self.rows = rows


def gathered(messages: Iterable[StagedRows | None]) -> tuple[list[int], int]:
    """Return the ids of the stages in the order of partitions, and how many messages they hold."""
    staged = [(message.stage, message.rows) for message in messages if message is not None]
    filled = [(stage, rows) for stage, rows in staged if stage is not None]
    return [stage for stage, _ in filled], sum(rows for _, rows in filled)
