"""Implement ``spark.readStream``: a queue, or one channel of it, consumed in batches under leases.

A batch is settled when its query has committed it. Spark calls ``commit`` for a batch only when it has planned the
next one, never for the last: so batches are settled in ``latestOffset(start)``, which is called once everything up to
``start`` is in the query's checkpoint. A batch that was not committed is given again, with the same messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from django_pgqueue.spark.datasource.claims import Claims, LeaseExtender
from django_pgqueue.spark.datasource.options import StreamOptions
from django_pgqueue.spark.datasource.reader import Statements
from django_pgqueue.spark.datasource.tables import TABLES, chosen_columns, quoted_literal, select
from django_pgqueue.spark.source import columns_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

MESSAGE = TABLES["message"]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Read a queue as a stream.

    Spark makes one reader that plans, in a process beside the driver, and one that reads, which travels to the workers.
    """

    def __init__(self, options: StreamOptions, schema: StructType) -> None:
        self.options = options
        self.columns, self.schema = chosen_columns(MESSAGE, schema)
        self.claims: Claims | None = None
        self.extender: LeaseExtender | None = None
        # The batch that this process claimed last.
        self.fresh = -1
        # The number of messages that may still be taken: those that waited when a run with availableNow began.
        self.left: int | None = None

    def opened(self) -> Claims:
        """Return the claims of the stream. The first call connects and starts to extend the leases."""
        if self.claims is None:
            self.claims = Claims(self.options)
            self.extender = LeaseExtender(self.claims.extend, self.options.lease)
        return self.claims

    def initialOffset(self) -> dict[str, int]:
        return {"batch": self.opened().settled}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.options.batch_messages)

    def prepareForTriggerAvailableNow(self) -> None:
        self.left = self.opened().waiting() + self.opened().extend()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """Settle the batches up to ``start``, claim the next one, and return its number. Raises PipelineError."""
        # A query that asks for everything gets as many messages as its memory can be expected to hold.
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else self.options.batch_messages
        if self.left is not None:
            most = min(most, self.left)
        claimed = self.opened().claim(start["batch"], most)
        self.fresh = claimed.batch
        if self.left is not None:
            self.left = max(0, self.left - claimed.messages)
        return {"batch": claimed.batch}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """Return a statement for each part of the batches after ``start`` up to ``end``.

        Raises PipelineError if those batches are settled already.
        """
        after, upto = start["batch"], end["batch"]
        if after == upto:
            return []
        claims = self.opened()
        claims.check(after)
        if upto != self.fresh:
            # After a crash the stream keeps the leases that it still holds; other consumers get the other messages.
            claims.extend()
        with self.options.source.connect() as connection, self.options.source.errors():
            existing = columns_of(connection, MESSAGE.name)
        return [Statements([self.statement(existing, after, upto, *ids)]) for ids in claims.bounds(after, upto)]

    def statement(self, existing: dict[str, str], after: int, upto: int, first: int, last: int) -> str:
        """Return the SQL that reads the claimed messages with these ids, if the stream still holds their leases."""
        claim = (
            f"FROM pgqueue_stream_claim AS s WHERE s.stream = {quoted_literal(self.options.stream)}"
            f" AND s.batch > {after} AND s.batch <= {upto}"
        )
        return (
            f"{select(MESSAGE, self.columns, existing)}"
            f" WHERE m.id = ANY (ARRAY(SELECT s.message_id {claim} AND s.message_id BETWEEN {first} AND {last}))"
            f" AND EXISTS (SELECT {claim} AND s.message_id = m.id AND s.token = m.lease_token) ORDER BY m.id"
        )

    # Spark passes the objects that partitions() returned.
    def read(self, partition: Statements) -> Iterator[pa.RecordBatch]:  # type: ignore[override]  # see above
        return self.options.source.read(partition.statements, self.schema)

    def commit(self, end: dict[str, int]) -> None:
        """Do nothing: Spark does not call this for the last batch, so no settlement depends on it."""

    def stop(self) -> None:
        if self.extender is not None:
            self.extender.stop()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"claims": None, "extender": None}
