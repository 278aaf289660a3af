"""The registry of handlers. Names come from messages, functions only from here: nothing is imported from a payload."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from inspect import iscoroutinefunction
from typing import Any, TypeVar

from django.apps import apps
from django.utils.module_loading import module_has_submodule

from django_pgqueue.backoff import Constant, Exponential, Policy
from django_pgqueue.exceptions import UnknownHandler

# Of a delivery, or of a list of them: which of the two, the option `batch` says.
Function = Callable[[Any], Any]
F = TypeVar("F", bound=Function)
# The pause after a failure, by the attempt, counted from 1, and what was raised; None: the message's back-off.
Pauses = Callable[[int, BaseException], timedelta | None]


@dataclass(frozen=True, slots=True)
class Handler:
    """A registered function and its policy; see :func:`handler`."""

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
    pauses: Pauses | None = None
    asynchronous: bool = False


_registry: dict[str, Handler] = {}

broken: dict[str, str] = {}
"""Modules of handlers that cannot be imported, and why."""

logger = logging.getLogger("django_pgqueue")


def handler(
    name: str,
    *,
    atomic: bool = False,
    queue: str = "default",
    max_attempts: int | None = None,
    backoff: Policy | Pauses | None = None,
    batch: int | None = None,
    timeout: timedelta | None = None,
    concurrency: int | None = None,
    process: bool = False,
) -> Callable[[F], F]:
    """Register a function of one :class:`Delivery` as the handler of messages that carry ``name``.

    It answers with nothing (done) or an outcome: Complete, Defer, Retry, DeadLetter, returned or raised. Any other
    exception is a Retry.

    ``atomic``: the function and the settlement of its message run in one transaction on the queue's database; a lost
    lease rolls all of it back. What is returned commits together with what was written; what is raised, and Retry in
    any case, rolls it back. ``queue``, ``max_attempts``, ``backoff``: defaults for messages that are enqueued for this
    handler. ``backoff`` is the base of the exponential one, a policy, or a function of the attempt and the exception,
    which the worker asks after each failure; whoever it cannot ask (the worker died) takes the message's policy.

    ``batch``: the function takes a list of up to so many deliveries, in one transaction if it is ``atomic``. It answers
    with nothing (all are done) or a dict of outcomes by message id. When it raises, or one message of an atomic batch
    is to be retried, it is called again for each message alone: one bad message does not fail the others. Let it lock
    rows in a fixed order: batches run beside each other.

    ``timeout`` (default: setting HANDLER_TIMEOUT): HandlerTimeout is raised in a function that runs longer, and its
    message is retried, or dead-lettered as ``timed_out``. An ``async def`` function runs in the event loop of the
    worker, beside many others; it is cancelled at its timeout. It cannot be ``atomic``.

    ``concurrency``: most calls at the same time in one worker process. ``process``: run in a process of its own, for
    work that keeps the processor busy or may crash; not with ``atomic``, ``batch`` or ``async def``.
    """
    for option, value in (("batch", batch), ("concurrency", concurrency)):
        if value is not None and value < 1:
            raise ValueError(f"{option} of the handler {name!r} is {value}: it must be at least 1.")
    if timeout is not None and timeout <= timedelta(0):
        raise ValueError(f"timeout of the handler {name!r} is {timeout}: it must be longer than zero.")
    if process and (atomic or batch):
        raise ValueError(
            f"The handler {name!r} has process=True, and atomic or batch: a process has neither the worker's "
            "transaction nor more than one message."
        )
    policy: Policy | None = None
    pauses: Pauses | None = None
    if backoff is None or isinstance(backoff, timedelta | Constant | Exponential):
        policy = backoff
    elif callable(backoff):
        pauses = backoff
    else:
        raise ValueError(
            f"backoff of the handler {name!r} is {backoff!r}: it takes a timedelta, a policy or a function."
        )

    def register(function: F) -> F:
        known = _registry.get(name)
        if known is not None and known.function is not function:
            raise ValueError(
                f"Two handlers are called {name!r}: {known.function.__module__}.{known.function.__qualname__} and "
                f"{function.__module__}.{function.__qualname__}. Rename one."
            )
        asynchronous = iscoroutinefunction(function)
        if asynchronous:
            refuse_async(name, atomic=atomic, process=process)
        _registry[name] = Handler(
            name, function, atomic, queue, max_attempts, policy, batch, timeout, concurrency, process,
            pauses=pauses, asynchronous=asynchronous,
        )  # fmt: skip
        return function

    return register


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
        name
        for name, known in _registry.items()
        if known.function is function or getattr(known.function, "__wrapped__", None) is function
    )


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
