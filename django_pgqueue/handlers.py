"""The registry of handlers. Names come from messages, functions only from here: nothing is imported from a payload."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from inspect import iscoroutinefunction
from typing import Any

from django.utils.module_loading import autodiscover_modules

from django_pgqueue.delivery import Delivery
from django_pgqueue.exceptions import UnknownHandler

Function = Callable[[Delivery], Any] | Callable[[list[Delivery]], Any]


@dataclass(frozen=True, slots=True)
class Handler:
    """A registered function and its policy; see :func:`handler`."""

    name: str
    function: Function
    atomic: bool = False
    queue: str = "default"
    max_attempts: int | None = None
    backoff: timedelta | None = None
    batch: int | None = None
    timeout: timedelta | None = None
    asynchronous: bool = False


_registry: dict[str, Handler] = {}


def handler(
    name: str,
    *,
    atomic: bool = False,
    queue: str = "default",
    max_attempts: int | None = None,
    backoff: timedelta | None = None,
    batch: int | None = None,
    timeout: timedelta | None = None,
) -> Callable[[Function], Function]:
    """Register a function of one :class:`Delivery` as the handler of messages that carry ``name``.

    It answers with nothing (done) or an outcome: Complete, Defer, Retry, DeadLetter, returned or raised. Any other
    exception is a Retry.

    ``atomic``: the function and the settlement of its message run in one transaction on the queue's database; a lost
    lease rolls all of it back. What is returned commits together with what was written; what is raised, and Retry in
    any case, rolls it back. ``queue``, ``max_attempts``, ``backoff`` (base of the exponential back-off): defaults for
    messages that are enqueued for this handler.

    ``batch``: the function takes a list of up to so many deliveries, in one transaction if it is ``atomic``. It answers
    with nothing (all are done) or a dict of outcomes by message id. When it raises, or one message of an atomic batch
    is to be retried, it is called again for each message alone: one bad message does not fail the others. Let it lock
    rows in a fixed order: batches run beside each other.

    ``timeout`` (default: setting HANDLER_TIMEOUT): HandlerTimeout is raised in a function that runs longer, and its
    message is retried, or dead-lettered as ``timed_out``. An ``async def`` function runs in the event loop of the
    worker, beside many others; it is cancelled at its timeout. It cannot be ``atomic``.
    """
    if batch is not None and batch < 1:
        raise ValueError(f"batch of the handler {name!r} is {batch}: it must be at least 1.")
    if timeout is not None and timeout <= timedelta(0):
        raise ValueError(f"timeout of the handler {name!r} is {timeout}: it must be longer than zero.")

    def register(function: Function) -> Function:
        known = _registry.get(name)
        if known is not None and known.function is not function:
            raise ValueError(
                f"Two handlers are called {name!r}: {known.function.__module__}.{known.function.__qualname__} and "
                f"{function.__module__}.{function.__qualname__}. Rename one."
            )
        asynchronous = iscoroutinefunction(function)
        if asynchronous and atomic:
            raise ValueError(
                f"The handler {name!r} is async and atomic: Django's transactions belong to one thread. Make it sync, "
                "or settle in a sync function that is called through sync_to_async."
            )
        _registry[name] = Handler(
            name, function, atomic, queue, max_attempts, backoff, batch, timeout=timeout, asynchronous=asynchronous
        )
        return function

    return register


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
    """The names under which a function is registered."""
    return sorted(name for name, known in _registry.items() if known.function is function)


def unregister(name: str) -> None:
    """Forget a handler; for tests."""
    _registry.pop(name, None)


def autodiscover() -> None:
    """Import ``handlers.py`` of every installed app."""
    autodiscover_modules("handlers")
