"""Implement ``spark.readStream``: a queue, consumed in batches under leases as a worker does.

An offset holds the tokens of the leases of its batch, so the checkpoint alone says which messages a batch has: a batch
that was not committed is given again, with the same messages. Spark calls ``commit`` for a batch only when it has
planned the next one, never for the last: so a batch is settled in ``latestOffset(start)``, which is called once
everything up to ``start`` is in the query's checkpoint.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from django_pgqueue.spark.datasource.options import StreamOptions
from django_pgqueue.spark.datasource.staging import refusals_as_pipeline_errors
from django_pgqueue.spark.datasource.tables import TABLES, chosen_columns, quoted_literal, select
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.source import SourceLost, columns_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

MESSAGE = TABLES["message"]
Offset = dict[str, Any]  # tokens: those of the leases; messages: how many there were
WORKER = f"spark {socket.gethostname()}"
# How often a batch is asked for while other consumers hold the messages, in half a second altogether.
TRIES = 10
PAUSE_SECONDS = 0.05
DEQUEUE = "SELECT token::text FROM pgqueue_dequeue(%s, %s, make_interval(secs => %s), %s)"
CONTENDED = "SELECT pgqueue_is_contended(ARRAY[%s])"
# The index of leases has only messages that are leased.
HELD = """(
    SELECT coalesce(array_agg(m.id ORDER BY m.id), '{}') AS ids,
        coalesce(array_agg(m.lease_token ORDER BY m.id), '{}') AS tokens
    FROM pgqueue_message AS m WHERE m.lease_expires_at IS NOT NULL AND m.lease_token = ANY (%(tokens)s::uuid[])
) AS h"""
COMPLETE = f"SELECT count(*) FROM {HELD}, pgqueue_complete(h.ids, h.tokens, p_skip_lost => true) AS c"  # noqa: S608
EXTEND = (
    f"SELECT count(*) FROM {HELD},"  # noqa: S608
    " pgqueue_heartbeat(h.ids, h.tokens, make_interval(secs => %(lease)s), p_skip_lost => true) AS b"
)
WAITING = """
SELECT count(*) FROM pgqueue_message AS m JOIN pgqueue_channel AS c ON c.id = m.channel_id
WHERE c.queue = %s
    AND (m.status = 1 OR m.status = 3 AND m.waits_for IS NULL AND m.dequeue_at <= clock_timestamp())
"""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Read a queue as a stream.

    Spark makes one reader that plans, in a process beside the driver, and one that reads, which travels to the workers.
    """

    def __init__(self, options: StreamOptions, schema: StructType) -> None:
        self.options = options
        self.columns, self.schema = chosen_columns(MESSAGE, schema)
        # The batch whose leases are extended, and the last one that was settled.
        self.held: Offset = {}
        self.settled: Offset = {}
        self.extender: LeaseExtender | None = None
        # The number of messages that may still be taken: those that waited when a run with availableNow began.
        self.left: int | None = None

    def initialOffset(self) -> Offset:
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.options.batch_messages)

    def prepareForTriggerAvailableNow(self) -> None:
        [[self.left]] = self._call(WAITING, [self.options.queue])

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Settle the batch ``start``, lease the next one, and return it. Raises PipelineError."""
        self._settle(start)
        # A query that asks for everything gets as many messages as its memory can be expected to hold.
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else self.options.batch_messages
        most = min(most, 10_000) if self.left is None else min(most, 10_000, self.left)
        tokens = self._dequeue(most) if most else []
        if not tokens:
            return start
        if self.left is not None:
            self.left -= len(tokens)
        self.held = {"tokens": sorted({*tokens}), "messages": len(tokens)}
        self._keep_extended()
        return self.held

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Return a statement for each part of the batch ``end``."""
        if start == end:
            return []
        if self.held != end:
            # After a crash the stream keeps the leases that it still holds; other consumers get the other messages.
            self.held = end
            self._warn_of_lost(end["messages"] - self.extend(), "are delivered to another consumer")
            self._keep_extended()
        with self.options.source.connect() as connection, self.options.source.errors():
            rows = select(MESSAGE, self.columns, columns_of(connection, MESSAGE.name))
        tasks = min(self.options.partitions, end["messages"])
        held = f"m.lease_expires_at IS NOT NULL AND m.lease_token = ANY ({quoted_literal(end['tokens'])}::uuid[])"
        return [InputPartition([f"{rows} WHERE {held} AND m.id % {tasks} = {n} ORDER BY m.id"]) for n in range(tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.options.source.read(partition.value, self.schema)

    def commit(self, end: Offset) -> None:
        """Do nothing: Spark does not call this for the last batch, so no settlement depends on it."""

    def extend(self) -> int:
        """Extend the leases of the batch. Returns how many it still holds. Raises PipelineError."""
        [[held]] = self._call(EXTEND, {"tokens": self.held["tokens"], "lease": self.options.lease})
        return int(held)

    def stop(self) -> None:
        if self.extender is not None:
            self.extender.stop()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"extender": None}

    def _settle(self, batch: Offset) -> None:
        """Move the messages of a batch, which its query has committed, to the archive, unless that was done."""
        if batch and batch != self.settled:
            [[done]] = self._call(COMPLETE, {"tokens": batch["tokens"]})
            # After a restart they may have been settled before, and nothing is held.
            lost = batch["messages"] - done if done or batch == self.held else 0
            self._warn_of_lost(lost, "were processed here, but also delivered to another consumer")
            self.settled = batch

    def _dequeue(self, most: int) -> list[str]:
        for _ in range(TRIES):
            rows = self._call(DEQUEUE, [self.options.queue, most, self.options.lease, WORKER])
            if rows or not self._call(CONTENDED, [self.options.queue])[0][0]:
                break
            time.sleep(PAUSE_SECONDS)
        return [token for (token,) in rows]

    def _keep_extended(self) -> None:
        if self.extender is None:
            self.extender = LeaseExtender(self.extend, self.options.lease / 3)

    def _warn_of_lost(self, lost: int, consequence: str) -> None:
        if lost > 0:
            line = f"pgqueue: the stream lost the leases of {lost} messages: they {consequence}."
            print(line, file=sys.stderr, flush=True)

    def _call(self, sql: str, parameters: Any) -> list[tuple[Any, ...]]:
        with self.options.source.connect() as connection, refusals_as_pipeline_errors(self.options.source):
            return connection.execute(sql, parameters).fetchall()


class LeaseExtender(threading.Thread):
    """Call ``extend`` every ``pause`` seconds, and sooner while the database cannot be reached."""

    def __init__(self, extend: Callable[[], int], pause: float) -> None:
        super().__init__(name="pgqueue leases", daemon=True)
        self.extend = extend
        self.pause = pause
        self.stopped = threading.Event()
        self.start()

    def run(self) -> None:
        pause = self.pause
        while not self.stopped.wait(pause):
            pause = self.pause
            try:
                self.extend()
            except SourceLost as error:
                # There are a few tries left before the leases expire.
                pause = self.pause / 4
                print(f"pgqueue: the leases could not be extended; retrying: {error}", file=sys.stderr, flush=True)
            except PipelineError as error:
                print(f"pgqueue: the leases are no longer extended: {error}", file=sys.stderr, flush=True)
                return

    def stop(self) -> None:
        """End the thread. Waits 5 seconds at most for a call that is under way."""
        self.stopped.set()
        self.join(5)
