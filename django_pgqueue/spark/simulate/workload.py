"""What a queue had to do: the messages that the lake has of it, as the simulation wants them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset

from django_pgqueue.spark import schema
from django_pgqueue.spark.errors import PipelineError

from .capacity import Attempt
from .engine import Message

COLUMNS = ("id", "channel", "priority", "attempts", "created_at", "dequeue_at", "leased_at", "worker", "errors")
TIMES = ("created_at", "dequeue_at", "leased_at", "settled_at")
BATCH = 10_000


@dataclass(frozen=True, slots=True)
class Workload:
    """``rows``: one a message, in the order in which they could be seen; times in microseconds since 1970."""

    rows: pa.Table

    @classmethod
    def load(cls, files: dict[str, list[str]], queue: str) -> Workload:
        """From files of the lake, by table. What was never leased (purged, popped, cancelled in time) is left out.

        Raises PipelineError for a file that cannot be read.
        """
        try:
            parts = [_read(table, paths, queue) for table, paths in files.items() if paths]
        except (pa.ArrowException, OSError) as error:
            told = " ".join(str(error).split())
            raise PipelineError(f"A file of the lake cannot be read, `verify` says more: {told}") from None
        if not parts or not sum(part.num_rows for part in parts):
            raise PipelineError(
                f"The lake has no message of queue {queue!r} in these days: look at the name, and at --days."
            )
        return cls(_in_order(pa.concat_tables(parts)))

    @property
    def channels(self) -> list[str]:
        return sorted(pc.unique(self.rows["channel"]).to_pylist())

    @property
    def window(self) -> tuple[int, int]:
        """When the first message could be seen, and when the last one was settled."""
        return pc.min(self.rows["arrives_at"]).as_py(), pc.max(self.rows["settled_at"]).as_py()

    def messages(self) -> Iterator[Message]:
        for row in self._each():
            earlier = _failed(row)
            starts = [*(attempt.start for attempt in earlier[1:]), row["dequeue_at"]]
            yield Message(
                id=row["id"],
                channel=row["channel"],
                rank=-row["priority"],
                arrives_at=row["arrives_at"],
                due_at=row["created_at"] if earlier else row["dequeue_at"],
                runs=(*(attempt.end - attempt.start for attempt in earlier), row["settled_at"] - row["leased_at"]),
                # When the last attempt was due is recorded; of others only when they began.
                pauses=tuple(
                    max(start - attempt.end, 0) for attempt, start in zip(earlier, starts, strict=bool(earlier))
                ),
                waited=max(row["leased_at"] - row["dequeue_at"], 0),
            )

    def leases(self) -> Iterator[Attempt]:
        """Every lease, also of attempts that failed."""
        for row in self._each():
            yield Attempt(row["leased_at"], row["settled_at"], row["worker"] or "")
            yield from _failed(row)

    def _each(self) -> Iterator[dict[str, Any]]:
        for batch in self.rows.to_batches(max_chunksize=BATCH):
            names = batch.schema.names
            for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                yield dict(zip(names, values, strict=True))


def _read(table: str, paths: list[str], queue: str) -> pa.Table:
    columns = {name: dataset.field(name) for name in COLUMNS}
    # Where nothing failed there is nothing to parse.
    columns["errors"] = pc.if_else(dataset.field("errors") == "[]", None, dataset.field("errors"))
    columns["settled_at"] = dataset.field(schema.DAYS[table])
    columns["died"] = dataset.scalar(table == "dead_letter")
    wanted = (dataset.field("queue") == queue) & dataset.field("leased_at").is_valid()
    rows = dataset.dataset(paths, schema=schema.arrow_schema(table), format="parquet").to_table(columns, filter=wanted)
    for name in TIMES:
        rows = rows.set_column(rows.schema.get_field_index(name), name, rows[name].cast(pa.int64()))
    return rows


def _in_order(rows: pa.Table) -> pa.Table:
    seen_at = pc.max_element_wise(rows["created_at"], rows["dequeue_at"])
    # A retry overwrote when it was due at first; as a rule it was due at once.
    arrives_at = pc.if_else(rows["errors"].is_valid(), rows["created_at"], seen_at)
    rows = rows.append_column("arrives_at", arrives_at)
    return rows.sort_by([("arrives_at", "ascending"), ("id", "ascending")])


def _failed(row: dict[str, Any]) -> list[Attempt]:
    """The attempts before the last one; only those whose beginning is known."""
    if not row["errors"]:
        return []
    attempts = []
    for entry in json.loads(row["errors"]):
        if not isinstance(entry, dict) or not entry.get("leased_at") or not entry.get("at"):
            continue
        # The last failure of a dead letter is its end.
        if not (row["died"] and entry.get("attempt") == row["attempts"]):
            attempts.append(Attempt(_micros(entry["leased_at"]), _micros(entry["at"]), entry.get("worker") or ""))
    return sorted(attempt for attempt in attempts if attempt.start <= attempt.end <= row["leased_at"])


def _micros(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1_000_000)
