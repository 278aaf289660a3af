"""The events of a history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

Result = Literal["ok", "fail", "unknown"]
READY, LEASED, SCHEDULED = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Op:
    """A call. ``unknown``: it was cut off, or its process died; it may have been done or not. Then ``ended`` is None,
    unless the caller lived to see it fail."""

    process: str
    number: int
    verb: str
    args: Mapping[str, Any]
    began: int
    ended: int | None = None
    result: Result = "unknown"
    value: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.verb} #{self.number} of {self.process}"


@dataclass(frozen=True, slots=True)
class Info:
    """Something that happened: a fault, a phase, a line of the server's log, an acknowledgement that a worker got."""

    process: str
    verb: str
    at: int
    fields: Mapping[str, Any] = field(default_factory=dict)


class Row(NamedTuple):
    """A write of a committed transaction: one row for each message that it touched.

    event      created | changed | gone (live messages), archived | dead | redriven, channel,
               queue or limit (what each allows; until when a breaker is open), gate (the
               leases that a dequeue has counted, with those that it takes), and what
               handlers and producers write in their own transactions: effect, business,
               stepped (what a step does); step (what is kept of it, outcome: its kind), event
    committed  when the transaction committed; at: when it did this; leased_at: the clock that the lease goes by
    was_*      before a change; settled_token: the lease whose holder gave the message back
    """

    seq: int
    xid: int
    committed: int
    at: int
    event: str
    message: int | None = None
    channel: int | None = None
    status: int | None = None
    was_status: int | None = None
    attempts: int | None = None
    was_attempts: int | None = None
    max_attempts: int | None = None
    token: str | None = None
    was_token: str | None = None
    settled_token: str | None = None
    leased_at: int | None = None
    expires_at: int | None = None
    was_expires_at: int | None = None
    dequeue_at: int | None = None
    priority: int | None = None
    key: str | None = None
    outcome: str | None = None
    detail: Any = None


@dataclass(slots=True)
class History:
    """``rows`` are in the order of commits, and of what each transaction did within."""

    run: dict[str, Any]
    ops: list[Op] = field(default_factory=list)
    infos: list[Info] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def of(self, *verbs: str) -> Iterator[Op]:
        return (op for op in self.ops if op.verb in verbs)

    def happened(self, *verbs: str) -> Iterator[Info]:
        return (info for info in self.infos if info.verb in verbs)
