"""Bulk enqueue in two steps: each task copies into a table of its own, and one transaction at the end enqueues all.

A task that fails, is tried again or runs twice leaves a table that is not named at the end; a job or a batch that is
run again finds itself in the ledger and changes nothing.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import psycopg
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.taskcontext import TaskContext

from django_pgqueue.spark.datasource.encoding import REFUSALS, BadRowError, RowEncoder, joined, refused_by_copy
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.source import Source, SourceLost, only

if TYPE_CHECKING:
    import pyarrow as pa

# Errors of a conflict with another transaction, which is over when the call is repeated.
IN_THE_WAY = ("40001", "40P01", "PGQ06")


class LockConflict(PipelineError):
    """Another transaction holds a lock that the statement needs. The same call may succeed a moment later."""


@contextmanager
def refusals_as_pipeline_errors(source: Source) -> Iterator[None]:
    """Convert the errors of the queue's functions.

    A refusal becomes a PipelineError with its hint, a conflict with another transaction becomes LockConflict. Other
    errors are converted as `Source.errors` does.
    """
    with source.errors():
        try:
            yield
        except psycopg.Error as error:
            state = error.sqlstate or ""
            reason = f"{error.diag.message_primary}. {error.diag.message_hint or ''}".strip()
            if state in IN_THE_WAY:
                raise LockConflict(f"Another transaction was in the way: {reason}") from None
            if state.startswith("PGQ"):
                raise PipelineError(reason[0].upper() + reason[1:]) from None
            raise


MOST_BAD_ROWS = 20  # that an error names
# Seconds between attempts to enqueue: nothing is lost or doubled by one more.
PAUSES_SECONDS = (0.5, 2.0, 8.0)


@dataclass(frozen=True, slots=True)
class BulkEnqueue:
    """A bulk enqueue, or a batch of a stream. ``name`` and ``batch`` identify it, so that it is done only once."""

    source: Source
    name: str
    batch: int = 0

    def stage(self, batches: Iterable[pa.RecordBatch], encoder: RowEncoder) -> StagedRows:
        """Copy the rows of a task into a stage; after a bad row there is none. Raises PipelineError."""
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return StagedRows(self.name)
        left = chain([first], filled)
        stage, rows, bad = None, 0, ""
        try:
            with self.source.connect() as connection, self.source.errors(), connection.transaction():
                parameters = [self.name, self.batch, json.dumps(encoder.absent)]
                [stage] = only(connection.execute("SELECT pgqueue_ingest_open(%s, %s, %s)", parameters))
                for piece in (piece for batch in left if stage is not None for piece in encoder.pieces(batch)):
                    copy_rows(connection, stage, encoder, piece)
                    rows += piece.num_rows
        except BadRowError as error:
            task = TaskContext.get()
            column = f", {error.column}" if error.column else ""
            place = f"row {rows + error.row + 1} of partition {task.partitionId() if task else 0}"
            stage, rows, bad = None, 0, f"{place}{column}: {error.problem}"
        # A worker whose input is not read to its end cannot be used again.
        for _ in left:
            pass
        return StagedRows(self.name, stage, rows, bad)

    def ingest(self, staged: Sequence[StagedRows], *, create_channels: bool = False) -> None:
        """Enqueue the rows of the stages, once. Raises PipelineError, which names the first bad row of each task."""
        if bad := [task.bad for task in staged if task.bad]:
            more = f"\n- and {len(bad) - MOST_BAD_ROWS} more" if len(bad) > MOST_BAD_ROWS else ""
            raise PipelineError(
                "Nothing was enqueued, because of rows that cannot be. The first one of each task:\n- "
                + "\n- ".join(bad[:MOST_BAD_ROWS])
                + more
            )
        for pause in (*PAUSES_SECONDS, None):
            try:
                self._ingest(staged, create_channels)
                break
            except (SourceLost, LockConflict):
                if pause is None:
                    raise
                time.sleep(pause)
        self.clean()

    def _ingest(self, staged: Sequence[StagedRows], create_channels: bool) -> None:
        stages = [task.stage for task in staged if task.stage is not None]
        messages = sum(task.rows for task in staged)
        with self.source.connect() as connection, refusals_as_pipeline_errors(self.source):
            rows = connection.execute(
                "SELECT ingested, dropped FROM pgqueue_ingest(%s, %s, %s::bigint[], %s, %s)",
                [self.name, self.batch, stages, messages, create_channels],
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


@dataclass(frozen=True)
class StagedRows(WriterCommitMessage):
    """The rows that a task has copied; the task passes them to the commit.

    ``stage``: None if it has copied nothing. ``bad``: its first row that cannot be enqueued, and why, or "".
    """

    name: str
    stage: int | None = None
    rows: int = 0
    bad: str = ""


def copy_rows(connection: psycopg.Connection[Any], stage: int, encoder: RowEncoder, rows: pa.RecordBatch) -> None:
    """Copy rows into a stage. Raises BadRowError.

    This transaction has created the stage, so its rows stay in the order of the calls.
    """
    text = joined(encoder.lines(rows))
    try:
        statement = f"COPY pgqueue_stage_{stage} ({', '.join(encoder.columns)}) FROM STDIN"
        with connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.write(text)
    except REFUSALS as error:
        raise refused_by_copy(error) from None
