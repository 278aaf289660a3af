"""Enter the context managers of HANDLER_MIDDLEWARE around each call of a handler."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from contextvars import copy_context
from dataclasses import replace
from functools import wraps
from inspect import isasyncgenfunction, isgeneratorfunction
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.utils.module_loading import import_string

from django_pgqueue import handlers
from django_pgqueue.conf import settings
from django_pgqueue.delivery import Delivery
from django_pgqueue.exceptions import HandlerError
from django_pgqueue.handlers import Function, Handler
from django_pgqueue.worker.interruption import leave_if_forked

# Takes a delivery and returns a context manager; one with the attribute ``whole`` takes all deliveries of a batch.
Factory = Callable[[Any], Any]


class Middleware:
    """Wrap handlers in the project's middleware, for the threads and the event loop.

    ``given``: dotted paths or factories, the outermost first. ``find``: returns the handler of a name with its function
    inside of the middleware, or None for an unknown name. ``alike``: returns whether one call may take both deliveries,
    because the middleware sees no difference between them; None if every two may go together. ``log``: the level of
    records that are kept of handlers without one of their own.
    """

    def __init__(self, given: Sequence[str | Factory], *, log: str | None = None) -> None:
        self._factories = [manager_factory(item) for item in given]
        self._log = log
        self._reads = context_keys_read(self._factories)
        self._wrapped: dict[str, tuple[Handler, Handler]] = {}
        self.find: Callable[[str], Handler | None] = self._find if given or log else handlers.find
        self.alike: Callable[[Delivery, Delivery], bool] | None = None if self._reads == () else self._alike

    @classmethod
    def configured(cls) -> Middleware:
        """Return that of the settings HANDLER_MIDDLEWARE and LOG_CAPTURE. Raises ImportError for a wrong path."""
        return cls(settings.HANDLER_MIDDLEWARE, log=settings.LOG_CAPTURE)

    def _find(self, name: str) -> Handler | None:
        handler = handlers.find(name)
        if handler is None:
            return None
        known, wrapped = self._wrapped.get(name, (None, None))
        if wrapped is None or known is not handler:
            around = surround_async if handler.asynchronous else surround
            function = handler.function
            if self._factories:
                function = around(function, self._factories, batch=handler.batch is not None)
            wrapped = replace(handler, function=function, log=handler.log or self._log)
            self._wrapped[name] = handler, wrapped
        return wrapped

    def _alike(self, first: Delivery, other: Delivery) -> bool:
        return self._seen(first) == self._seen(other)

    def _seen(self, delivery: Delivery) -> str:
        """Return the parts of a delivery that the middleware can see, as text that can be compared.

        The context of the channel and the headers count each by itself: a middleware may read one of them alone, and
        must not get that of another tenant because a header makes the two contexts equal.
        """
        contexts = (delivery.channel_context, delivery.headers)
        seen: list[Any] = (
            [delivery.queue, delivery.channel, *contexts]
            if self._reads is None
            else [context.get(key) for context in contexts for key in self._reads]
        )
        return json.dumps(seen, cls=DjangoJSONEncoder, sort_keys=True)


def manager_factory(item: str | Factory) -> Factory:
    """Return the callable that a dotted path names, as a function that returns context managers.

    A generator function is wrapped by contextmanager or asynccontextmanager. Raises ImportError.
    """
    found = import_string(item) if isinstance(item, str) else item
    if isgeneratorfunction(found):
        return contextmanager(found)
    return asynccontextmanager(found) if isasyncgenfunction(found) else found


def context_keys_read(factories: Sequence[Factory]) -> tuple[str, ...] | None:
    """Return the keys of the context that the factories declare in their attribute ``reads``.

    Returns None if one has no such attribute, because it may read all keys.
    """
    declared = [getattr(factory, "reads", None) for factory in factories]
    known = [keys for keys in declared if keys is not None]
    return None if len(known) < len(declared) else tuple(sorted({key for keys in known for key in keys}))


def surround(function: Function, factories: Sequence[Factory], *, batch: bool) -> Function:
    """Return the function of a sync handler, wrapped in the context managers of the factories.

    ``batch``: the function takes a list of deliveries. Each call runs in a copy of the context variables, so the next
    message does not see what this one or an interrupted middleware leaves in them (a language, a time zone). If a
    middleware swallows an exception, the call raises it all the same.
    """

    def call(argument: Any) -> Any:
        process = os.getpid()
        raised: BaseException | None = None
        try:
            with ExitStack() as stack:
                try:
                    for factory in factories:
                        stack.enter_context(
                            manager_of(factory, argument_for(factory, argument, batch=batch), "__enter__")
                        )
                    try:
                        return function(argument)
                    finally:
                        leave_if_forked(process)
                except BaseException as error:
                    raised = error
                    raise
            raise swallowed_error(raised)
        finally:
            raised = None  # it would refer to this frame, which refers to it

    @wraps(function)
    def surrounded(argument: Any) -> Any:
        return copy_context().run(call, argument)

    return surrounded


def surround_async(function: Function, factories: Sequence[Factory], *, batch: bool) -> Function:
    """Return the function of an async handler, wrapped as by :func:`surround`; sync context managers work, too.

    The event loop gives each message context variables of its own.
    """

    @wraps(function)
    async def surrounded(argument: Any) -> Any:
        raised: BaseException | None = None
        try:
            async with AsyncExitStack() as stack:
                try:
                    for factory in factories:
                        manager = manager_of(
                            factory, argument_for(factory, argument, batch=batch), "__aenter__", "__enter__"
                        )
                        if hasattr(manager, "__aenter__"):
                            await stack.enter_async_context(manager)
                        else:
                            stack.enter_context(manager)
                    return await function(argument)
                except BaseException as error:
                    raised = error
                    raise
            raise swallowed_error(raised)
        finally:
            raised = None

    return surrounded


def swallowed_error(raised: BaseException | None) -> BaseException:
    """Return the exception that a middleware swallowed; a RuntimeError if the middleware did not call the handler."""
    return raised or RuntimeError("the middleware did not call the handler")


def argument_for(factory: Factory, argument: Any, *, batch: bool) -> Any:
    """Return what a middleware's factory is called with: the delivery, or the first delivery of a batch.

    ``argument``: what the handler is called with: a delivery, or with ``batch`` a list of them. A factory with the
    attribute ``whole`` gets the list.
    """
    return argument[0] if batch and not getattr(factory, "whole", False) else argument


def manager_of(factory: Factory, seen: Any, *ways: str) -> Any:
    """Return the context manager of the factory for ``seen``, the answer of :func:`argument_for`.

    ``ways``: method names, such as ``__enter__``; HandlerError is raised if it has none of them.
    """
    manager = factory(seen)
    if any(hasattr(manager, way) for way in ways):
        return manager
    name = getattr(factory, "__qualname__", repr(factory))
    hint = "Make it a generator function: def middleware(delivery): …; yield"
    if hasattr(manager, "__aenter__"):
        delivery = seen[0] if isinstance(seen, list) else seen
        hint = f"It is async, and the handler {delivery.handler!r} is not: make it a plain generator function."
    raise HandlerError(f"The middleware {name} returned {type(manager).__name__}, which cannot be entered.", hint=hint)
