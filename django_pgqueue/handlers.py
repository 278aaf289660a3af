"""The registry of handlers. Names come from messages, functions only from here: nothing is imported from a payload."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from typing import Any, TypeVar, Unpack, overload

from django.apps import apps
from django.utils.module_loading import module_has_submodule

import django_pgqueue
from django_pgqueue.backoff import Constant, Exponential, Policy
from django_pgqueue.delivery import Enqueued, EnqueueOptions
from django_pgqueue.exceptions import InvalidMessage, UnknownHandler
from django_pgqueue.handler_types import Register, RegisterBatch
from django_pgqueue.outcomes import Archive, archive_choice
from django_pgqueue.payloads import converting
from django_pgqueue.signatures import check_name, check_options, check_switches, examine, is_async, locate

# Of a delivery, or of a list of them: which of the two, the option `batch` says.
Function = Callable[[Any], Any]
F = TypeVar("F", bound=Function)
# The pause after a failure, by the attempt, counted from 1, and what was raised; None: the message's back-off.
BackoffFunction = Callable[[int, BaseException], timedelta | None]


@dataclass(frozen=True, slots=True)
class Handler:
    """A registered function and its policy; see :func:`handler`.

    ``converts``: ``function`` makes the payloads first, and its ``__wrapped__`` is the one that was registered.
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
    process: bool = False
    archive: Archive | None = None
    backoff_function: BackoffFunction | None = None
    asynchronous: bool = False
    converts: bool = False

    @property
    def registered(self) -> Function:
        return self.function.__wrapped__ if self.converts else self.function  # type: ignore[attr-defined]  # of wraps()


_registry: dict[str, Handler] = {}

broken: dict[str, str] = {}
"""Modules of handlers that cannot be imported, and why."""

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
    process: bool = False,
    archive: Archive | None = None,
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
    process: bool = False,
    archive: Archive | None = None,
) -> Any:
    """Register a function of one :class:`Delivery` as the handler of messages that carry ``name``.

    It answers with nothing (done) or an outcome: Complete, Defer, Retry, DeadLetter, returned or raised. Any other
    exception is a Retry. The function stays what it was; it gets ``enqueue`` and ``aenqueue``, which take a payload and
    the options of :func:`django_pgqueue.enqueue`.

    If it takes ``Delivery[T]``, the payload is checked and made into a ``T`` before each call: a dataclass, a TypedDict
    or a simple type. A payload that does not fit is dead-lettered as ``invalid_payload``.

    ``atomic``: the function and the settlement of its message run in one transaction on the queue's database; a lost
    lease rolls all of it back. What is returned commits together with what was written; what is raised, and Retry in
    any case, rolls it back. ``queue``, ``max_attempts``, ``backoff``: defaults for messages that are enqueued for this
    handler. ``backoff`` is the base of the exponential one, a policy, or a function of the attempt and the exception,
    which the worker asks after each failure; if the worker died, the message's own policy applies.

    ``batch``: the function takes a list of up to so many deliveries, in one transaction if it is ``atomic``. It answers
    with nothing (all are done) or a dict of outcomes by message id. When it raises, or one message of an atomic batch
    is to be retried, it is called again for each message alone: one bad message does not fail the others. Let it lock
    rows in a fixed order: batches run beside each other.

    ``timeout`` (default: setting HANDLER_TIMEOUT): HandlerTimeout is raised in a function that runs longer, and its
    message is retried, or dead-lettered as ``timed_out``. An ``async def`` function runs in the event loop of the
    worker, beside many others; it is cancelled at its timeout. It cannot be ``atomic``.

    ``concurrency``: most calls at the same time in one worker process. ``process``: run in a process of its own, for
    work that keeps the processor busy or may crash; not with ``atomic``, ``batch`` or ``async def``.

    ``archive``: what the archive keeps of a message that it has handled, whatever its channel or queue says: ``full``,
    ``outcome`` (no payload, no result) or ``none``. A dead letter is always kept whole.

    Raises ValueError for options that cannot be, and for a function that could not be called.
    """
    check_name(name)
    counts = {"max_attempts": max_attempts, "batch": batch, "concurrency": concurrency}
    check_options(name, counts, queue=queue, timeout=timeout)
    check_switches(name, {"atomic": atomic, "process": process})
    archive_choice(archive)
    if process and (atomic or batch):
        raise ValueError(
            f"The handler {name!r} has process=True, and atomic or batch: a process has neither the worker's "
            "transaction nor more than one message."
        )
    policy: Policy | None = None
    backoff_function: BackoffFunction | None = None
    if isinstance(backoff, timedelta) and backoff < timedelta(0):
        raise ValueError(f"backoff of the handler {name!r} is {backoff}: it must not be negative.")
    if backoff is None or isinstance(backoff, timedelta | Constant | Exponential):
        policy = backoff
    elif callable(backoff):
        backoff_function = backoff
    else:
        raise ValueError(
            f"backoff of the handler {name!r} is {backoff!r}: it takes a timedelta, a policy or a function."
        )

    def register(function: F) -> F:
        convert = examine(name, function, batch)
        known = _registry.get(name)
        if known is not None and known.registered is not function:
            raise ValueError(
                f"Two handlers are called {name!r}: {locate(known.function)} and {locate(function)}. Rename one."
            )
        asynchronous = is_async(function)
        if asynchronous:
            refuse_async(name, atomic=atomic, process=process)
        called = function if convert is None else converting(function, convert, asynchronous=asynchronous)
        _registry[name] = Handler(
            name, called, atomic, queue, max_attempts, policy, batch, timeout, concurrency, process,
            archive=archive, backoff_function=backoff_function, asynchronous=asynchronous, converts=convert is not None,
        )  # fmt: skip
        give_enqueue(function)
        return function

    return register


def give_enqueue(function: Any) -> None:
    """Some objects take no attributes, such as bound methods: they are enqueued by name."""

    # The verbs are above this module; the package resolves them when they are used.
    def enqueue(payload: Any = None, **options: Unpack[EnqueueOptions]) -> Enqueued:
        return django_pgqueue.enqueue(name_of(function), payload, **options)

    async def aenqueue(payload: Any = None, **options: Unpack[EnqueueOptions]) -> Enqueued:
        return await django_pgqueue.aenqueue(name_of(function), payload, **options)

    with suppress(AttributeError):
        function.enqueue, function.aenqueue = enqueue, aenqueue


def refuse_async(name: str, *, atomic: bool, process: bool) -> None:
    """Raises ValueError for what an async function cannot be."""
    if not (atomic or process):
        return
    other, why = ("atomic", "Django's transactions belong to one thread") if atomic else (
        "has process=True", "a process runs one message at a time"
    )  # fmt: skip
    raise ValueError(f"The handler {name!r} is async and {other}: {why}. Make it a plain function.")


def get(name: str) -> Handler:
    try:
        return _registry[name]
    except KeyError:
        raise UnknownHandler(
            f"No handler is called {name!r}.",
            hint="Define it in handlers.py of an installed app, and restart the workers.",
        ) from None


def find(name: str) -> Handler | None:
    return _registry.get(name)


def names() -> list[str]:
    return sorted(_registry)


def kinds() -> set[bool]:
    """Which kinds there are: True for async functions."""
    return {known.asynchronous for known in _registry.values()}


def names_of(function: Function) -> list[str]:
    """The names under which a function is registered, by itself or inside of a wrapper."""
    return sorted(
        name for name, known in _registry.items() if any(layer is function for layer in layers(known.function))
    )


def layers(function: Function | None) -> Iterator[Function]:
    """The function, what it wraps, and so on."""
    while function is not None:
        yield function
        function = getattr(function, "__wrapped__", None)


def name_of(handler: str | Function) -> str:
    """Return the name of a registered function; a name stays as it is. Raises InvalidMessage for none, or several."""
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
        hint = "Say the name." if names else 'Put @handler("…") on it, or give the name of a handler.'
        raise InvalidMessage(f"{getattr(handler, '__qualname__', type(handler).__name__)!r} {found}", hint=hint)
    return names[0]


def unregister(name: str) -> None:
    """Forget a handler."""
    _registry.pop(name, None)


def autodiscover() -> None:
    """Import ``handlers.py`` of every installed app. One that fails takes its own handlers away and no others."""
    for config in apps.get_app_configs():
        if module_has_submodule(config.module, "handlers"):
            discover(f"{config.name}.handlers")


def discover(module: str, load: Callable[[str], object] = import_module) -> None:
    """Import a module, or ``load`` it in another way."""
    before = dict(_registry)
    try:
        load(module)
    except (Exception, SystemExit) as error:
        # Those that were registered before it failed would miss what comes after them.
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
