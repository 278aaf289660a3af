"""The executor: runs a handler and turns whatever happens into a value. Somebody else writes the value down."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django_pgqueue.delivery import Delivery
from django_pgqueue.exceptions import HandlerError, UnknownHandler
from django_pgqueue.outcomes import Complete, DeadLetter, Defer, Outcome, Retry
from django_pgqueue.worker.failure import describe

COMPLETE = Complete()


@dataclass(frozen=True, slots=True)
class Execution:
    """What came of a delivery.

    ``error`` describes what went wrong (for Retry); ``reason``: of the dead letter when the attempts are used up;
    ``raised``: the outcome left the handler as an exception.
    """

    delivery: Delivery
    outcome: Complete | Defer | Retry | DeadLetter
    error: Mapping[str, Any] | None = None
    reason: str = "failed"
    raised: bool = False
    seconds: float = 0.0


def execute(function: Callable[[Delivery], Any] | None, delivery: Delivery) -> Execution:
    """Run the handler's function, None for an unknown one. Never raises: even SystemExit is the message's failure."""
    started = time.monotonic()
    if function is None:
        hint = "Define it in handlers.py of an installed app, and restart the workers."
        unknown = UnknownHandler(f"No handler is called {delivery.handler!r} in this worker.", hint=hint)
        return failed(delivery, unknown, reason="rejected")
    try:
        answer = function(delivery)
    except Outcome as outcome:
        return judge(delivery, outcome, raised=True, seconds=time.monotonic() - started)
    except BaseException as error:
        return failed(delivery, error, seconds=time.monotonic() - started)
    return judge(delivery, COMPLETE if answer is None else answer, seconds=time.monotonic() - started)


def run(function: Callable[..., Any] | None, deliveries: list[Delivery], *, batch: bool) -> list[Execution]:
    """Run the function for the deliveries: in one call, if it takes a ``batch``, or for the one delivery."""
    if batch and function is not None:
        return execute_batch(function, deliveries)
    return [execute(function, delivery) for delivery in deliveries]


def execute_batch(function: Callable[[list[Delivery]], Any], deliveries: list[Delivery]) -> list[Execution]:
    """Run the function of a handler with ``batch``. What it raises is the outcome of each message."""
    started = time.monotonic()
    try:
        answers = function(list(deliveries))
    except BaseException as error:
        each = (time.monotonic() - started) / len(deliveries)
        if isinstance(error, Outcome):
            return [judge(delivery, error, raised=True, seconds=each) for delivery in deliveries]
        return [failed(delivery, error, seconds=each) for delivery in deliveries]
    each = (time.monotonic() - started) / len(deliveries)
    if answers is None:
        return [Execution(delivery, COMPLETE, seconds=each) for delivery in deliveries]
    if not isinstance(answers, Mapping) or not answers.keys() <= {delivery.id for delivery in deliveries}:
        return [failed(delivery, nonsense(delivery, answers, batch=True), seconds=each) for delivery in deliveries]
    chosen = [(delivery, answers.get(delivery.id)) for delivery in deliveries]
    return [judge(delivery, COMPLETE if answer is None else answer, seconds=each) for delivery, answer in chosen]


def judge(delivery: Delivery, answer: Any, *, raised: bool = False, seconds: float = 0.0) -> Execution:
    match answer:
        case Retry():
            error = describe(answer) | {"type": "Retry", "message": describe(Exception(answer.error))["message"]}
            return Execution(delivery, answer, error, raised=raised, seconds=seconds)
        case Complete() | Defer() | DeadLetter():
            return Execution(delivery, answer, raised=raised, seconds=seconds)
    return failed(delivery, nonsense(delivery, answer), seconds=seconds)


def failed(delivery: Delivery, error: BaseException, *, reason: str = "failed", seconds: float = 0.0) -> Execution:
    return Execution(delivery, Retry(), describe(error), reason, raised=True, seconds=seconds)


def nonsense(delivery: Delivery, answer: Any, *, batch: bool = False) -> HandlerError:
    kind = type(answer).__name__
    hint = "Return None, or Complete(result=…), Defer, Retry or DeadLetter."
    if batch:
        hint = "It takes a batch: return None, or a dict of outcomes by the ids of its messages."
    if inspect.iscoroutine(answer):
        answer.close()
        hint = "It is an async function: call it through asgiref.sync.async_to_sync."
    elif isinstance(answer, type) and issubclass(answer, Outcome):
        kind, hint = f"the class {answer.__name__}", f"Return an instance: {answer.__name__}(…)."
    return HandlerError(
        f"The handler {delivery.handler!r} returned {kind}, which says nothing about its message.", hint=hint
    )
