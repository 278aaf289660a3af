"""Define the values that pass between Python and the database: new messages, deliveries and answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Protocol, TypedDict
from uuid import UUID

import django_pgqueue
from django_pgqueue.backoff import Policy
from django_pgqueue.outcomes import Cancelled

if TYPE_CHECKING:
    # With its default, a plain ``Delivery`` means Delivery[Any]; typing.TypeVar has defaults from Python 3.13 on.
    from typing_extensions import TypeVar

    from django_pgqueue.limits import Limit
    from django_pgqueue.unique import Debounce, Unique

    P_co = TypeVar("P_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    P_co = TypeVar("P_co", covariant=True)


NO_PAYLOAD: Final[dict[str, Any]] = {}
"""The default of ``payload``, here as in SQL. It is compared by identity: each message gets an object of its own."""


OnDead = Literal["cancel", "run", "wait"]


class EnqueuesItself(Protocol):
    """Describe a function under ``@handler``, as far as a new message needs it."""

    __name__: str

    def __call__(self, argument: Any, /) -> Any: ...

    @property
    def enqueue(self) -> Any: ...


@dataclass(slots=True, kw_only=True)
class NewMessage:
    """Describe a message to be enqueued; the fields are those of :func:`django_pgqueue.enqueue`.

    No code changes it; a frozen dataclass would take four times as long to make.
    """

    handler: str | EnqueuesItself
    payload: Any = field(default_factory=dict)
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
    limits: Iterable[str | Limit] | None = None
    cost: int | None = None
    order_key: str | None = None
    unique: Unique | Debounce | None = None
    after: Iterable[Enqueued | int] | None = None
    on_dead: OnDead | None = None


class EnqueueOptions(TypedDict, total=False):
    """List the keywords of :func:`django_pgqueue.enqueue`, for functions that pass them on; a test compares them."""

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
    limits: Iterable[str | Limit] | None
    cost: int | None
    order_key: str | None
    unique: Unique | Debounce | None
    after: Iterable[Enqueued | int] | None
    on_dead: OnDead | None
    on_refused: Literal["raise", "return"]
    using: str | None


@dataclass(slots=True, unsafe_hash=True)
class Enqueued:
    """Hold the answer of an enqueue. No code changes it; see :class:`NewMessage`.

    ``id``: the new message's; for ``duplicate`` and ``replaced`` that of the existing message; None for one that was
    ``dropped`` or, with ``on_refused="return"``, refused: ``not_found`` (the channel), ``released``, ``full``,
    ``busy`` or ``invalid``. ``reason``: a sentence that says why it was refused; else empty. ``created_at``: when it
    was ``created``, by the clock of the database. ``dropped_ids``: the messages that were dropped from a full channel
    to make room, by its policy ``drop_oldest`` or ``replace``.
    """

    id: int | None
    outcome: Literal["created", "duplicate", "replaced", "dropped", "not_found", "released", "full", "busy", "invalid"]
    reason: str = ""
    created_at: datetime | None = field(default=None, compare=False)
    dropped_ids: tuple[int, ...] = ()

    @property
    def created(self) -> bool:
        """Return whether a new message was created."""
        return self.outcome == "created"

    def wait(self, timeout: timedelta | float | None = None, *, using: str | None = None) -> Any:
        """Wait until the message has ended, and return its result; see :func:`django_pgqueue.wait_all`."""
        return django_pgqueue.wait_all([self], timeout=timeout, using=using)[0]

    async def await_(self, timeout: timedelta | float | None = None, *, using: str | None = None) -> Any:  # noqa: ASYNC109  (as the sync one)
        """Wait as :meth:`wait` does, in async code."""
        [result] = await django_pgqueue.await_all([self], timeout=timeout, using=using)
        return result


class LeaseToken(Protocol):
    """Describe the token of a lease: a UUID, or another object with the attribute ``hex``."""

    @property
    def hex(self) -> str: ...


class Leased(Protocol):
    """Describe what settlements and heartbeats need of a message: its id and its token. A delivery has both."""

    @property
    def id(self) -> int: ...
    @property
    def token(self) -> LeaseToken | None: ...


@dataclass(slots=True)
class Cancellation:
    """Hold the part of a delivery that changes while its handler runs. Copies of the delivery share it."""

    requested: bool = False

    def request(self) -> None:
        """Ask the handler to end; any thread may call it."""
        self.requested = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery(Generic[P_co]):
    """Hold a leased message: the right to work on it until ``lease_expires_at`` (clock of the database).

    ``Delivery[OrderPayload]`` has a payload of that type; if a handler takes one, the payload is checked and converted,
    see :mod:`django_pgqueue.payloads`.

    ``attempt``: the number of deliveries, counted from 1. ``token``: proves the lease; the settling functions check it.
    ``state``: what the last Defer or Retry saved. ``last_leased_at``: when the lease before this one began, or None.
    ``channel_context``: the channel's context. ``worker``: the name under which the message was leased, or None.
    ``cancellation``: the worker changes it while the handler runs, if the message is to be cancelled.
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
        """Return whether a failure of this attempt makes the message a dead letter."""
        return self.attempt >= self.max_attempts

    @property
    def context(self) -> dict[str, Any]:
        """Return the headers of the message with the context of the channel, which wins.

        Each program that may enqueue chooses the headers. A header stands here only where the channel has no such key.
        """
        return {**self.headers, **self.channel_context}

    def raise_if_cancelled(self) -> None:
        """Raise Cancelled if a cancellation of the message was requested, and so end the handler."""
        if self.cancelled:
            raise Cancelled


class UnsealedDelivery(Delivery[Any]):
    """Take the fields of a delivery one by one, and become a Delivery at the end by ``seal``.

    The constructor of a frozen dataclass takes eight times as long, and a worker makes a delivery for each message.
    """

    __slots__ = ()
    __setattr__ = object.__setattr__
    __delattr__ = object.__delattr__

    def seal(self) -> Delivery:
        """Turn this object into a Delivery, which is frozen, and return it. All fields must be there."""
        self.__class__ = Delivery  # type: ignore[assignment]  # both have the same slots
        return self


def label(delivery: Delivery) -> str:
    """Return the message's name in log lines: ``shop.confirm #7 on default/acme``."""
    return f"{delivery.handler} #{delivery.id} on {delivery.queue}/{delivery.channel}"
