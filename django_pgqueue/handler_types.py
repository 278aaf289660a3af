"""Define the types of decorated handlers, for type checkers and editors. At run time, a handler is a plain function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Protocol, TypeVar, Unpack, overload

from django_pgqueue.delivery import Delivery, Enqueued, EnqueueOptions
from django_pgqueue.outcomes import Outcome

P = TypeVar("P")
P_contra = TypeVar("P_contra", contravariant=True)
A_contra = TypeVar("A_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)
Answer = Outcome | None
R = TypeVar("R", bound=Answer | Awaitable[Answer])
Answers = Mapping[int, Answer] | None
RS = TypeVar("RS", bound=Answers | Awaitable[Answers])


class HandlerFunction(Protocol[A_contra, P_contra, R_co]):
    """Describe a function under :func:`handler`, which also enqueues messages for itself.

    ``A_contra``: its argument, ``P_contra``: the payload of its messages, ``R_co``: its return value.
    """

    __name__: str
    __qualname__: str

    def __call__(self, argument: A_contra, /) -> R_co: ...

    @property
    def enqueue(self) -> Enqueue[P_contra]: ...

    @property
    def aenqueue(self) -> AsyncEnqueue[P_contra]: ...


AnyHandler = HandlerFunction[Any, Any, Any]


class Enqueue(Protocol[P_contra]):
    """Enqueue a message for the handler, as :func:`django_pgqueue.enqueue` does, with the same options."""

    @overload
    def __call__(self: Enqueue[None], **options: Unpack[EnqueueOptions]) -> Enqueued: ...
    @overload
    def __call__(self, payload: P_contra, **options: Unpack[EnqueueOptions]) -> Enqueued: ...


class AsyncEnqueue(Protocol[P_contra]):
    """Enqueue a message for the handler from async code; see :class:`Enqueue`."""

    @overload
    def __call__(self: AsyncEnqueue[None], **options: Unpack[EnqueueOptions]) -> Coroutine[Any, Any, Enqueued]: ...
    @overload
    def __call__(self, payload: P_contra, **options: Unpack[EnqueueOptions]) -> Coroutine[Any, Any, Enqueued]: ...


class Register(Protocol):
    """Describe the decorator that :func:`handler` returns."""

    def __call__(self, function: Callable[[Delivery[P]], R], /) -> HandlerFunction[Delivery[P], P, R]: ...


class RegisterBatch(Protocol):
    """Describe the decorator that :func:`handler` returns with ``batch``."""

    def __call__(self, function: Callable[[list[Delivery[P]]], RS], /) -> HandlerFunction[list[Delivery[P]], P, RS]: ...
