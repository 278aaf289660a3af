"""The messages that cross the border between Python and the database, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol
from uuid import UUID

from django_pgqueue.backoff import Policy
from django_pgqueue.outcomes import Cancelled


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage:
    """A message to be enqueued; the fields are those of :func:`django_pgqueue.enqueue`."""

    handler: str
    payload: Any = None
    channel: str = "default"
    queue: str | None = None
    body: bytes | None = None
    headers: Mapping[str, Any] | None = None
    priority: int = 0
    dequeue_at: datetime | None = None
    delay: timedelta | None = None
    max_attempts: int | None = None
    backoff: Policy | None = None
    dedupe_key: str | None = None


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The answer to an enqueue.

    ``id`` of the message; of the one that is there already for a ``duplicate``; None for a message that was
    ``dropped``.
    """

    id: int | None
    outcome: Literal["created", "duplicate", "dropped"]

    @property
    def created(self) -> bool:
        return self.outcome == "created"


class LeaseToken(Protocol):
    """A UUID, or what does for one."""

    @property
    def hex(self) -> str: ...


class Leased(Protocol):
    """What settling and heartbeats need to know of a message: a delivery has it."""

    @property
    def id(self) -> int: ...
    @property
    def token(self) -> LeaseToken | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A leased message: the right to work on it until ``lease_expires_at`` (database clock).

    ``attempt`` counts deliveries from 1. ``token`` proves the lease; whoever settles shows it. ``state`` is what the
    last deferral saved. ``channel_context`` is the channel's. ``worker``: the name under which it was leased, if any.
    ``cancelled``: somebody wants the message cancelled; the worker sets it while the handler runs.
    """

    id: int
    queue: str
    channel: str
    handler: str
    payload: Any
    body: bytes | None
    headers: Mapping[str, Any]
    priority: int
    attempt: int
    max_attempts: int
    token: UUID | None
    lease_expires_at: datetime | None
    state: Any
    created_at: datetime
    dequeue_at: datetime
    channel_context: Mapping[str, Any] = field(default_factory=dict)
    worker: str | None = None
    cancelled: bool = field(default=False, compare=False, repr=False)

    @property
    def last_attempt(self) -> bool:
        return self.attempt >= self.max_attempts

    @property
    def context(self) -> dict[str, Any]:
        """The context of the channel and the headers of the message, which win."""
        return {**self.channel_context, **self.headers}

    def raise_if_cancelled(self) -> None:
        """End the handler here if somebody wants the message cancelled. Raises Cancelled."""
        if self.cancelled:
            raise Cancelled
