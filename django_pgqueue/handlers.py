"""Register handlers. A message carries a name; the function comes from this registry alone, so a payload imports
nothing."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from typing import Any, Protocol, TypeVar, Unpack, overload

from django.apps import apps
from django.utils.module_loading import module_has_submodule

import django_pgqueue
from django_pgqueue.backoff import Policy
from django_pgqueue.breakers import Breaker
from django_pgqueue.delivery import NO_PAYLOAD, Delivery, Enqueued, EnqueueOptions
from django_pgqueue.exceptions import InvalidMessage, UnknownHandler
from django_pgqueue.limits import Limit
from django_pgqueue.outcomes import Archive, Outcome, archive_choice
from django_pgqueue.payloads import converting
from django_pgqueue.signatures import (
    BackoffFunction,
    check_breaker,
    check_function,
    check_gather,
    check_limits,
    check_log,
    check_name,
    check_options,
    check_switches,
    is_async,
    layers,
    locate,
    refuse_async,
    split_backoff,
)

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


# A function of one delivery, or with the option `batch` of a list of deliveries.
Function = Callable[[Any], Any]
F = TypeVar("F", bound=Function)


@dataclass(frozen=True, slots=True)
class Handler:
    """Hold a registered function and its policy; see :func:`handler`.

    ``converts``: True if ``function`` converts the payloads first; its ``__wrapped__`` is then the function that was
    registered. ``takes_rows``: True if the type of its payloads has models.
    """

    name: str
    function: Function
    atomic: bool = False
    queue: str = "default"
    max_attempts: int | None = None
    backoff: Policy | None = None
    batch: int | None = None
    timeout: timedelta | None = None
    concurrency: int | None = None
    archive: Archive | None = None
    limits: tuple[str, ...] = ()
    breaker: Breaker | None = None
    log: str | None = None
    gather: timedelta | None = None
    backoff_function: BackoffFunction | None = None
    asynchronous: bool = False
    converts: bool = False
    takes_rows: bool = False

    @property
    def registered(self) -> Function:
        """Return the function that was registered, without the wrapper that converts payloads."""
        return self.function.__wrapped__ if self.converts else self.function  # type: ignore[attr-defined]  # of wraps()


_registry: dict[str, Handler] = {}

broken: dict[str, str] = {}
"""Modules of handlers that cannot be imported, each with its error."""

logger = logging.getLogger("django_pgqueue")


@overload
def handler(
    name: str,
    *,
    atomic: bool = False,
    queue: str = "default",
    max_attempts: int | None = None,
    backoff: Policy | BackoffFunction | None = None,
    batch: None = None,
    timeout: timedelta | None = None,
    concurrency: int | None = None,
    archive: Archive | None = None,
    limits: Iterable[str | Limit] = (),
    breaker: Breaker | None = None,
    log: str | None = None,
) -> Register: ...
@overload
def handler(
    name: str,
    *,
    atomic: bool = False,
    queue: str = "default",
    max_attempts: int | None = None,
    backoff: Policy | BackoffFunction | None = None,
    batch: int,
    timeout: timedelta | None = None,
    concurrency: int | None = None,
    archive: Archive | None = None,
    limits: Iterable[str | Limit] = (),
    breaker: Breaker | None = None,
    log: str | None = None,
    gather: timedelta | None = None,
) -> RegisterBatch: ...
def handler(
    name: str,
    *,
    atomic: bool = False,
    queue: str = "default",
    max_attempts: int | None = None,
    backoff: Policy | BackoffFunction | None = None,
    batch: int | None = None,
    timeout: timedelta | None = None,
    concurrency: int | None = None,
    archive: Archive | None = None,
    limits: Iterable[str | Limit] = (),
    breaker: Breaker | None = None,
    log: str | None = None,
    gather: timedelta | None = None,
) -> Any:
    """Register a function of one :class:`Delivery` as the handler of messages that carry ``name``.

    The function returns None (done) or returns or raises an outcome: Complete, Defer, Retry, Reject. Any other
    exception counts as a Retry. The decorator returns the function itself, and adds ``enqueue`` and ``aenqueue``, which
    take a payload and the options of :func:`django_pgqueue.enqueue`.

    If it takes ``Delivery[T]``, the payload is checked and converted to a ``T`` before each call: a dataclass, a
    TypedDict, a simple type or a model, whose row is fetched. A payload that does not fit is dead-lettered as
    ``invalid_payload``, one whose row is not there as ``gone``.

    ``atomic``: the function and the settlement of its message run in one transaction on the queue's database; a lost
    lease rolls all of it back. A returned outcome commits together with the function's writes; an exception, and Retry
    in any case, rolls them back. ``queue``, ``max_attempts``, ``backoff``: defaults for messages that are enqueued for
    this handler. ``backoff`` is a timedelta (the base of an exponential one), a policy, or a function of the attempt
    and the exception, which the worker calls after each failure; if the worker died, the message's own policy applies.

    ``batch``: the most deliveries of one call; the function then takes a list, in one transaction if it is ``atomic``.
    It returns None (all are done) or a dict of outcomes by message id. If it raises, or one message of an atomic batch
    is to be retried, it is called again for each message alone, so that one bad message does not fail the others. Lock
    rows in a fixed order: batches run in parallel. ``gather``: a timedelta of at most 10 seconds; so long a message
    waits for more of its channel, unless the batch is full before.

    ``timeout``: a timedelta; default: the setting HANDLER_TIMEOUT. In a function that runs longer, HandlerTimeout is
    raised, and its message is retried, or dead-lettered as ``timed_out``. An ``async def`` function runs in the event
    loop of the worker, beside many others; it is cancelled at its timeout. It cannot be ``atomic``.

    ``concurrency``: the most calls at the same time in one worker process.

    ``archive``: what the archive keeps of the messages that this handler completes, whatever their channel or queue
    says: ``full``, ``outcome`` (no payload, no result) or ``none``. A dead letter is always kept whole.

    ``limits``: names of shared limits, or :class:`Limit` objects, which all messages of the handler have, in every
    channel and queue, however they were enqueued. A worker that starts, and ``migrate``, write this to the database.
    ``breaker``: a :class:`Breaker`; after failures in a row the messages wait, and one tries from time to time.
    ``log``: the lowest level of its records that are kept with its messages, such as ``INFO``, or ``OFF``; default: the
    setting LOG_CAPTURE.

    Raises ValueError for options that are not allowed, and for a function that the worker could not call.
    """
    check_name(name)
    counts = {"max_attempts": max_attempts, "batch": batch, "concurrency": concurrency}
    check_options(name, counts, queue=queue, timeout=timeout)
    check_switches(name, {"atomic": atomic})
    archive_choice(archive)
    limited = check_limits(name, limits)
    check_breaker(name, breaker)
    check_log(name, log)
    check_gather(name, gather, batch)
    policy, backoff_function = split_backoff(name, backoff)

    def register(function: F) -> F:
        kind = check_function(name, function, batch)
        known = _registry.get(name)
        if known is not None and known.registered is not function:
            raise ValueError(
                f"Two handlers are called {name!r}: {locate(known.function)} and {locate(function)}. Rename one."
            )
        asynchronous = is_async(function)
        if asynchronous:
            refuse_async(name, atomic=atomic)
        called = function if kind is None else converting(function, kind, asynchronous=asynchronous)
        _registry[name] = Handler(
            name, called, atomic, queue, max_attempts, policy, batch, timeout, concurrency, archive, limited, breaker,
            log, gather, backoff_function=backoff_function, asynchronous=asynchronous, converts=kind is not None,
            takes_rows=kind is not None and kind.rows,
        )  # fmt: skip
        give_enqueue(function)
        return function

    return register


def give_enqueue(function: Any) -> None:
    """Add ``enqueue`` and ``aenqueue`` to the function. Objects that take no attributes, such as bound methods, stay as
    they are; they are enqueued by name."""

    # The verbs are above this module; the package resolves them when they are used.
    def enqueue(payload: Any = NO_PAYLOAD, **options: Unpack[EnqueueOptions]) -> Enqueued:
        return django_pgqueue.enqueue(name_of(function), payload, **options)

    async def aenqueue(payload: Any = NO_PAYLOAD, **options: Unpack[EnqueueOptions]) -> Enqueued:
        return await django_pgqueue.aenqueue(name_of(function), payload, **options)

    with suppress(AttributeError):
        function.enqueue, function.aenqueue = enqueue, aenqueue


def get(name: str) -> Handler:
    """Return the handler of this name. Raises UnknownHandler."""
    try:
        return _registry[name]
    except KeyError:
        raise UnknownHandler(
            f"No handler is called {name!r}.",
            hint="Define it in handlers.py of an installed app, and restart the workers.",
        ) from None


def find(name: str) -> Handler | None:
    """Return the handler of this name, or None."""
    return _registry.get(name)


def names() -> list[str]:
    """Return the names of all handlers, sorted."""
    return sorted(_registry)


def names_by_limit() -> dict[str, list[str]]:
    """Return the shared limits that handlers name, each with the names of these handlers."""
    limits = {limit for known in _registry.values() for limit in known.limits}
    return {limit: [name for name in names() if limit in _registry[name].limits] for limit in sorted(limits)}


def kinds() -> set[bool]:
    """Return the kinds of handlers that are registered: True stands for async functions, False for others."""
    return {known.asynchronous for known in _registry.values()}


def names_of(function: Function) -> list[str]:
    """Return the names under which a function is registered, by itself or inside of a wrapper."""
    return sorted(
        name for name, known in _registry.items() if any(layer is function for layer in layers(known.function))
    )


def name_of(handler: str | Function) -> str:
    """Return the name of a registered function; a name is returned unchanged. Raises InvalidMessage for a function with
    no name or several."""
    if isinstance(handler, str):
        return handler
    if not callable(handler):
        raise InvalidMessage(
            f"handler is neither a name nor a function but {type(handler).__name__}",
            hint="Give the name of a handler, or the decorated function.",
        )
    names = names_of(handler)
    if len(names) != 1:
        found = f"has {len(names)} names: {', '.join(names)}" if names else "is not registered with @handler"
        hint = "Give the name as text." if names else 'Put @handler("…") on it, or give the name of a handler.'
        raise InvalidMessage(f"{getattr(handler, '__qualname__', type(handler).__name__)!r} {found}", hint=hint)
    return names[0]


def unregister(name: str) -> None:
    """Remove a handler from the registry."""
    _registry.pop(name, None)


def autodiscover() -> None:
    """Import ``handlers.py`` of every installed app. If one fails, only its own handlers are missing."""
    for config in apps.get_app_configs():
        if module_has_submodule(config.module, "handlers"):
            discover(f"{config.name}.handlers")


def discover(module: str, load: Callable[[str], object] = import_module) -> None:
    """Import a module, or call ``load`` for it. If it fails, log the error and remove the handlers that it
    registered."""
    before = dict(_registry)
    try:
        load(module)
    except (Exception, SystemExit) as error:
        # A module that failed half-way has registered only some of its handlers: remove them all.
        _registry.clear()
        _registry.update(before)
        if module not in broken:
            logger.exception(
                "%s cannot be imported: its handlers are missing, and their messages wait", module,
                extra={"event": "import_failed", "handlers_module": module},
            )  # fmt: skip
        broken[module] = f"{type(error).__name__}: {error}"
    else:
        broken.pop(module, None)
