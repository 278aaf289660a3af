"""The messages that cross the border between Python and the database, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypedDict
from uuid import UUID

from django_pgqueue.backoff import Policy
from django_pgqueue.outcomes import Cancelled

if TYPE_CHECKING:
    # With its default, a plain ``Delivery`` means Delivery[Any]; typing.TypeVar has defaults from Python 3.13 on.
    from typing_extensions import TypeVar

    P_co = TypeVar("P_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    P_co = TypeVar("P_co", covariant=True)


class EnqueuesItself(Protocol):
    """A function under ``@handler``, as far as a message to be enqueued needs to know it."""

    __name__: str

    def __call__(self, argument: Any, /) -> Any: ...

    @property
    def enqueue(self) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage:
    """A message to be enqueued; the fields are those of :func:`django_pgqueue.enqueue`."""

    handler: str | EnqueuesItself
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


class EnqueueOptions(TypedDict, total=False):
    """The keywords of :func:`django_pgqueue.enqueue`, for what passes them on; a test compares them."""

    channel: str
    queue: str | None
    body: bytes | None
    headers: Mapping[str, Any] | None
    priority: int
    dequeue_at: datetime | None
    delay: timedelta | None
    max_attempts: int | None
    backoff: Policy | None
    dedupe_key: str | None
    on_refused: Literal["raise", "return"]
    using: str | None


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The answer to an enqueue.

    ``id`` of the message; of the one that is there already for a ``duplicate``; None for a message that was
    ``dropped`` or, with ``on_refused="return"``, refused: ``not_found`` (the channel), ``released``, ``full``,
    ``busy`` or ``invalid``. ``reason``: why it was refused, for people; empty otherwise. ``created_at``, by the
    database clock, of a message that was ``created``. ``dropped_ids``: the messages that left a full channel for it,
    by its policy ``drop_oldest`` or ``replace``.
    """

    id: int | None
    outcome: Literal["created", "duplicate", "dropped", "not_found", "released", "full", "busy", "invalid"]
    reason: str = ""
    created_at: datetime | None = field(default=None, compare=False)
    dropped_ids: tuple[int, ...] = ()

    @property
    def created(self) -> bool:
        return self.outcome == "created"


class LeaseToken(Protocol):
    """The type of a lease's token: a UUID, or another object with the attribute ``hex``."""

    @property
    def hex(self) -> str: ...


class Leased(Protocol):
    """What settling and heartbeats need to know of a message: a delivery has it."""

    @property
    def id(self) -> int: ...
    @property
    def token(self) -> LeaseToken | None: ...


@dataclass(slots=True)
class Cancellation:
    """The part of a delivery that changes while its handler runs. Copies of the delivery share it."""

    requested: bool = False

    def request(self) -> None:
        """Ask the handler to end; any thread may call it."""
        self.requested = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery(Generic[P_co]):
    """A leased message: the right to work on it until ``lease_expires_at`` (database clock).

    ``Delivery[OrderPayload]`` has a payload of that type; a handler that takes one gets the payload checked and made
    into it, see :mod:`django_pgqueue.payloads`.

    ``attempt`` counts deliveries from 1. ``token`` proves the lease; whoever settles shows it. ``state`` is what the
    last deferral saved. ``last_leased_at``: when the lease before this one began, if any. ``channel_context`` is the
    channel's. ``worker``: the name under which it was leased, if any.
    ``cancellation`` is what the worker changes while the handler runs, if the message is to be cancelled.
    """

    id: int
    queue: str
    channel: str
    handler: str
    payload: P_co
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
    last_leased_at: datetime | None = None
    worker: str | None = None
    cancellation: Cancellation = field(default_factory=Cancellation, compare=False, repr=False)

    @property
    def cancelled(self) -> bool:
        """Return whether the message is to be cancelled."""
        return self.cancellation.requested

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


def label(delivery: Delivery) -> str:
    """Return what a line of the log calls the message: ``shop.confirm #7 on default/acme``."""
    return f"{delivery.handler} #{delivery.id} on {delivery.queue}/{delivery.channel}"
