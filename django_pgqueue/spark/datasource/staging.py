"""Bulk enqueue in two steps: each task copies into a table of its own, and one transaction at the end enqueues all.

A task that fails, is tried again or runs twice leaves a table that is not named at the end; a job or a batch that is
run again finds itself in the ledger and changes nothing.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.taskcontext import TaskContext

from django_pgqueue.spark.datasource.bad_rows import (
    MOST_BAD_ROWS,
    REFUSALS,
    BadRow,
    BadValueError,
    bad_rows_text,
    read_refusal,
)
from django_pgqueue.spark.datasource.encoding import ORIGIN, joined
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.source import Source, SourceLost, only

if TYPE_CHECKING:
    from django_pgqueue.spark.datasource.encoding import RowEncoder

# No name has this character in PostgreSQL.
BETWEEN = "\0"
SELECT = """
SELECT u.queue, u.channel, c.id IS NULL
FROM unnest(%s::text[], %s::text[]) AS u (queue, channel)
LEFT JOIN pgqueue_channel AS c ON c.queue = u.queue AND c.name = u.channel
WHERE c.id IS NULL AND NOT %s OR c.released_at IS NOT NULL
"""


class KnownChannels:
    """The channels that a task has asked the database about, each once. ``create``: unknown ones will be created."""

    def __init__(self, connection: psycopg.Connection[Any], *, create: bool) -> None:
        self.connection = connection
        self.create = create
        self.asked: set[str] = set()
        self.problems: dict[str, str] = {}

    def find_bad(self, encoder: RowEncoder, batch: pa.RecordBatch) -> dict[int, BadValueError]:
        """Return the rows of the batch whose channel cannot be used, by their index.

        A channel that all rows have by option is no row's fault: the enqueue at the end refuses it.
        """
        if not {"queue", "channel"} & {*encoder.columns}:
            return {}
        queues, channels = (encoder.values(batch, name, "default") for name in ("queue", "channel"))
        places = pc.binary_join_element_wise(queues, channels, BETWEEN)
        self._ask({*pc.unique(places).to_pylist()} - self.asked)
        if not self.problems:
            return {}
        found = pc.indices_nonzero(pc.is_in(places, pa.array([*self.problems], pa.string()))).to_pylist()
        return {index: BadValueError("channel", self.problems[places[index].as_py()]) for index in found}

    def _ask(self, places: set[str]) -> None:
        self.asked |= places
        # COPY refuses a name that has the character itself.
        names = [place.split(BETWEEN) for place in places if place.count(BETWEEN) == 1]
        if names:
            queues, channels = zip(*names, strict=True)
            for queue, channel, missing in self.connection.execute(SELECT, [[*queues], [*channels], self.create]):
                problem = "its queue has no such channel" if missing else "it is released"
                self.problems[f"{queue}{BETWEEN}{channel}"] = problem


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


# Seconds between attempts to enqueue: nothing is lost or doubled by one more.
PAUSES_SECONDS = (0.5, 2.0, 8.0)


@dataclass(frozen=True, slots=True)
class BulkEnqueue:
    """A bulk enqueue, or a batch of a stream. ``name`` and ``batch`` identify it, so that it is done only once."""

    source: Source
    name: str
    batch: int = 0

    def stage(
        self, batches: Iterable[pa.RecordBatch], encoder: RowEncoder, *, create_channels: bool = False
    ) -> StagedRows:
        """Copy the rows into a stage, but for bad ones. Raises PipelineError."""
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return StagedRows(self.name)
        with self.source.connect() as connection, self.source.errors(), connection.transaction():
            parameters = [self.name, self.batch, json.dumps(encoder.absent)]
            [stage] = only(connection.execute("SELECT pgqueue_ingest_open(%s, %s, %s)", parameters))
            copier = None
            if stage is not None:
                copier = Copier(connection, stage, encoder, KnownChannels(connection, create=create_channels))
            # A worker whose input is not read to its end cannot be used again.
            for batch in chain([first], filled):
                if copier is not None and len(copier.bad) <= MOST_BAD_ROWS:
                    copier.copy(batch)
        return StagedRows(self.name, stage, copier.copied, copier.bad) if copier else StagedRows(self.name)

    def ingest(self, staged: Sequence[StagedRows], *, create_channels: bool = False, collect: bool = False) -> None:
        """Enqueue the rows of the stages, once.

        ``collect``: if some rows are bad, enqueue the others, and write the bad ones into the ledger. Raises
        PipelineError.
        """
        bad = [row for task in staged for row in task.bad]
        if len(bad) > (MOST_BAD_ROWS if collect else 0):
            raise PipelineError(bad_rows_text(bad))
        for pause in (*PAUSES_SECONDS, None):
            try:
                self._ingest(staged, bad, create_channels)
                break
            except (SourceLost, LockConflict):
                if pause is None:
                    raise
                time.sleep(pause)
        self.clean()

    def _ingest(self, staged: Sequence[StagedRows], bad: Sequence[BadRow], create_channels: bool) -> None:
        stages = [task.stage for task in staged if task.stage is not None]
        messages = sum(task.rows for task in staged)
        bad_rows = json.dumps([row.as_json() for row in bad]) if bad else None
        with self.source.connect() as connection, refusals_as_pipeline_errors(self.source):
            rows = connection.execute(
                "SELECT ingested, dropped FROM pgqueue_ingest(%s, %s, %s::bigint[], %s, %s, %s)",
                [self.name, self.batch, stages, messages, create_channels, bad_rows],
            )
            ingested, dropped = only(rows)
        if ingested and dropped:
            print(
                f"pgqueue: {dropped} of {messages} messages were dropped: their channels are full (job {self.name}).",
                file=sys.stderr,
            )
        if ingested and bad:
            print(f"pgqueue: {len(bad)} bad rows were not enqueued (job {self.name}):", *bad, sep="\n", file=sys.stderr)

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


class StagedRows(WriterCommitMessage):
    """The rows that a task has copied; the task passes them to the commit.

    ``stage``: None if it has copied nothing. ``bad``: the rows that it left out; after more than MOST_BAD_ROWS it left
    out the rest, too.
    """

    def __init__(self, name: str, stage: int | None = None, rows: int = 0, bad: Sequence[BadRow] = ()) -> None:
        self.name = name
        self.stage = stage
        self.rows = rows
        self.bad = list(bad)


class Copier:
    """Copy the rows of one task into its stage, in their order, and collect those that cannot be enqueued."""

    def __init__(
        self, connection: psycopg.Connection[Any], stage: int, encoder: RowEncoder, channels: KnownChannels
    ) -> None:
        self.connection = connection
        self.encoder = encoder
        self.channels = channels
        self.statement = f"COPY pgqueue_stage_{stage} ({', '.join(encoder.copied)}) FROM STDIN"
        task = TaskContext.get()
        self.partition = task.partitionId() if task else 0
        self.rows = 0
        self.bad: list[BadRow] = []

    @property
    def copied(self) -> int:
        """Return how many rows are in the stage."""
        return self.rows - len(self.bad)

    def copy(self, batch: pa.RecordBatch) -> None:
        """Copy the rows of a batch that can be enqueued."""
        for piece in self.encoder.pieces(batch):
            lines, bad = self.encoder.encode(piece)
            bad = self.channels.find_bad(self.encoder, piece) | bad
            rows = pa.array([index not in bad for index in range(len(lines))]) if bad else None
            left = self.copy_lines(lines.filter(rows) if bad else lines)
            if left:
                # Those that PostgreSQL refused are counted among the lines that it got.
                given = [index for index in range(len(lines)) if index not in bad]
                bad |= {given[index]: error for index, error in left.items()}
            self.note(piece, bad)

    def copy_lines(self, lines: pa.Array) -> dict[int, BadValueError]:
        """Copy the lines that PostgreSQL accepts. Returns the others by their index; stops when they are too many."""
        refused: dict[int, BadValueError] = {}
        start = 0
        while start < len(lines) and len(refused) <= MOST_BAD_ROWS:
            try:
                with self.connection.transaction():
                    self.send(lines.slice(start))
                break
            except REFUSALS as error:
                line, column, problem = read_refusal(error)
            # Nothing of a COPY that fails is left, so the rows before the bad one are copied again.
            if line > 1:
                self.send(lines.slice(start, line - 1))
            start += line
            refused[start - 1] = BadValueError(column or "", problem)
        return refused

    def send(self, lines: pa.Array) -> None:
        """Copy the lines into the stage by one COPY.

        This transaction has created the stage, so its rows stay in the order of the calls.
        """
        with self.connection.cursor() as cursor, cursor.copy(self.statement) as copy:
            copy.write(joined(lines))

    def note(self, piece: pa.RecordBatch, bad: Mapping[int, BadValueError]) -> None:
        """Count the rows of a piece, and keep its bad ones."""
        if bad:
            origins = self.encoder.values(piece, ORIGIN).to_pylist()
            self.bad += [
                BadRow(self.partition, self.rows + index + 1, error.column or None, error.problem, origins[index])
                for index, error in sorted(bad.items())
            ]
        self.rows += piece.num_rows
