"""Load a queue's messages from the lake, in the form that the simulation needs."""

from __future__ import annotations

import heapq
import json
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset

from django_pgqueue.spark import schema
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.simulate.capacity import Attempt, runs
from django_pgqueue.spark.simulate.lane import SimulatedMessage
from django_pgqueue.spark.simulate.limits import SharedLimits

COLUMNS = (
    "id", "channel", "handler", "priority", "attempts", "created_at", "dequeue_at", "worker", "errors", "limits",
    "cost", "order_key",
)  # fmt: skip
TIMES = ("created_at", "dequeue_at", "began_at", "settled_at")
BATCH_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Workload:
    """The messages of a queue.

    ``rows``: one per message, in the order in which they became visible; times in microseconds since 1970;
    ``began_at``: when its last handler started, or, without ``started``, its last lease. ``failed``: the attempts
    before the last one, by row.
    """

    rows: pa.Table
    failed: dict[int, list[Attempt]]

    @classmethod
    def load(cls, files: dict[str, list[str]], queue: str) -> Workload:
        """Load the messages of a queue from files of the lake, by table.

        Messages that were never leased (purged, popped, cancelled in time) are left out. Raises PipelineError for a
        file that cannot be read, and for a queue without messages.
        """
        try:
            parts = [_read(table, paths, queue) for table, paths in files.items() if paths]
        except (pa.ArrowException, OSError) as error:
            reason = " ".join(str(error).split())
            raise PipelineError(f"A file of the lake cannot be read; run verify for the details: {reason}") from None
        if not parts or not sum(part.num_rows for part in parts):
            raise PipelineError(
                f"The lake has no message of queue {queue!r} in these days: look at the name, and at --days."
            )
        rows = _in_order(pa.concat_tables(parts))
        failed = {place: found for place, row in _with_errors(rows) if (found := _failed(place, row))}
        return cls(rows.drop_columns(["errors", "attempts"]), failed)

    @property
    def channels(self) -> list[str]:
        return sorted(pc.unique(self.rows["channel"]).to_pylist())

    @property
    def window(self) -> tuple[int, int]:
        """Return when the first message became visible, and when the last one was settled; microseconds since 1970."""
        return pc.min(self.rows["arrives_at"]).as_py(), pc.max(self.rows["settled_at"]).as_py()

    def attempts(self) -> Iterator[Attempt]:
        """Yield every attempt, including the failed ones, in the order of their start."""
        order = pc.sort_indices(self.rows, [("began_at", "ascending"), ("id", "ascending")])
        rows = self.rows.select(["began_at", "settled_at", "worker", "started"])
        failed = sorted(attempt for attempts in self.failed.values() for attempt in attempts)
        return heapq.merge(self._last_attempts(rows, order), failed)

    def messages(self, concurrency: int, shared: Sequence[SharedLimits] = ()) -> Iterator[SimulatedMessage]:
        """Yield the messages, with the time that their handlers took in workers of this concurrency, and those of the
        shared limits that they have."""
        last = array("q", bytes(8 * self.rows.num_rows))
        earlier = {row: [0] * len(attempts) for row, attempts in self.failed.items()}
        for attempt, run in runs(self.attempts(), concurrency):
            if attempt.place < 0:
                last[attempt.row] = run
            else:
                earlier[attempt.row][attempt.place] = run
        for place, row in enumerate(_each(self.rows)):
            taken = (*earlier.get(place, ()), last[place])
            yield self._message(row, self.failed.get(place, []), taken, shared)

    def _message(
        self, row: dict[str, Any], failed: list[Attempt], taken: tuple[int, ...], shared: Sequence[SharedLimits]
    ) -> SimulatedMessage:
        # The archive has the due time of the last attempt; for the others it only has when they began.
        begins = [*(attempt.start for attempt in failed), row["dequeue_at"]][1:]
        return SimulatedMessage(
            id=row["id"],
            channel=row["channel"],
            rank=-row["priority"],
            arrives_at=row["arrives_at"],
            due_at=row["created_at"] if failed else row["dequeue_at"],
            runs=taken,
            pauses=tuple(max(begin - attempt.end, 0) for attempt, begin in zip(failed, begins, strict=True)),
            waited=max(row["began_at"] - row["dequeue_at"], 0),
            started=row["started"],
            cost=row["cost"] or 1,
            shared=tuple(each.name for each in shared if each.has(row["handler"], json.loads(row["limits"] or "[]"))),
            key=row["order_key"],
            dies=row["died"],
        )

    @staticmethod
    def _last_attempts(rows: pa.Table, order: pa.Array) -> Iterator[Attempt]:
        for begin in range(0, len(order), BATCH_ROWS):
            places = order.slice(begin, BATCH_ROWS)
            columns = [column.to_pylist() for column in rows.take(places).columns]
            for place, start, end, worker, started in zip(places.to_pylist(), *columns, strict=True):
                yield Attempt(start, end, worker or "", place, -1, started)


def _read(table: str, paths: list[str], queue: str) -> pa.Table:
    columns = {name: dataset.field(name) for name in COLUMNS}
    # A message without failures has nothing to parse.
    columns["errors"] = pc.if_else(dataset.field("errors") == "[]", None, dataset.field("errors"))
    columns["settled_at"] = dataset.field(schema.DAYS[table])
    columns["began_at"] = pc.coalesce(dataset.field("started_at"), dataset.field("leased_at"))
    columns["started"] = dataset.field("started_at").is_valid()
    columns["died"] = dataset.scalar(table == "dead_letter")
    wanted = (dataset.field("queue") == queue) & dataset.field("leased_at").is_valid()
    rows = dataset.dataset(paths, schema=schema.arrow_schema(table), format="parquet").to_table(columns, filter=wanted)
    for name in TIMES:
        rows = rows.set_column(rows.schema.get_field_index(name), name, rows[name].cast(pa.int64()))
    return rows


def _in_order(rows: pa.Table) -> pa.Table:
    seen_at = pc.max_element_wise(rows["created_at"], rows["dequeue_at"])
    # A retry overwrote the first due time; usually a message was due at once. One with an order key holds up others
    # from its enqueue on.
    at_once = pc.or_(rows["errors"].is_valid(), rows["order_key"].is_valid())
    arrives_at = pc.if_else(at_once, rows["created_at"], seen_at)
    rows = rows.append_column("arrives_at", arrives_at)
    return rows.sort_by([("arrives_at", "ascending"), ("id", "ascending")])


def _each(rows: pa.Table) -> Iterator[dict[str, Any]]:
    for batch in rows.to_batches(max_chunksize=BATCH_ROWS):
        names = batch.schema.names
        for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield dict(zip(names, values, strict=True))


def _with_errors(rows: pa.Table) -> Iterator[tuple[int, dict[str, Any]]]:
    places = pc.indices_nonzero(rows["errors"].is_valid())
    return zip(places.to_pylist(), _each(rows.take(places)), strict=True)


def _failed(place: int, row: dict[str, Any]) -> list[Attempt]:
    """Return the attempts before the last one whose beginning is known."""
    found = []
    for entry in json.loads(row["errors"]):
        began_at = isinstance(entry, dict) and (entry.get("started_at") or entry.get("leased_at"))
        if not began_at or not entry.get("at"):
            continue
        # The last failure of a dead letter is its last attempt.
        if not (row["died"] and entry.get("attempt") == row["attempts"]):
            started = bool(entry.get("started_at"))
            found.append((_micros(began_at), _micros(entry["at"]), entry.get("worker") or "", started))
    before = sorted(attempt for attempt in found if attempt[0] <= attempt[1] <= row["began_at"])
    return [Attempt(*attempt[:3], place, number, attempt[3]) for number, attempt in enumerate(before)]


def _micros(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1_000_000)
