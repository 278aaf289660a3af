"""Chooses what a report is about: all queues, some of them, or one channel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

# Each message is counted once in each level: whole queues, whole channels, handlers.


def queue_rows(rows: pa.Table) -> pa.Table:
    """Return the rows of whole queues, without those of channels and handlers."""
    return rows.filter(pc.equal(rows["level"], "queue"))


def channel_rows(rows: pa.Table) -> pa.Table:
    """Return the rows of whole channels, without those of their handlers."""
    return rows.filter(pc.equal(rows["level"], "channel"))


def handler_rows(rows: pa.Table) -> pa.Table:
    """Return the rows that tell the handlers of a channel apart."""
    return rows.filter(pc.equal(rows["level"], "handler"))


@dataclass(frozen=True, slots=True)
class Choice:
    """The subject of a report. ``queues``: none means all; ``channel``: only this channel, of the one queue."""

    queues: Sequence[str] = ()
    channel: str | None = None

    def of(self, rows: pa.Table) -> pa.Table:
        """Return the rows of the subject. Those of a channel become the rows of a queue with the channel's name."""
        if self.queues:
            rows = rows.filter(pc.is_in(rows["queue"], pa.array(self.queues, pa.string())))
        if self.channel is None:
            return rows
        its = rows.filter(pc.equal(rows["channel"], self.channel))
        its = _with(its, "queue", self.channel)
        if "level" not in its.column_names:
            return its
        return pa.concat_tables([_with(channel_rows(its), "level", "queue"), its])


def _with(rows: pa.Table, column: str, value: str) -> pa.Table:
    place = rows.schema.get_field_index(column)
    return rows.set_column(place, rows.schema.field(column), pa.repeat(pa.scalar(value, pa.string()), rows.num_rows))
