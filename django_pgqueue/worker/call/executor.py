"""The executor: runs a handler and turns any result into a value; the completer writes it."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from django_pgqueue import handlers
from django_pgqueue.conf import settings
from django_pgqueue.delivery import Delivery, label
from django_pgqueue.exceptions import HandlerError, HandlerTimeout, UnknownHandler
from django_pgqueue.handlers import BackoffFunction
from django_pgqueue.outcomes import Cancelled, Complete, DeadLetter, Defer, Outcome, Retry
from django_pgqueue.worker.call.failure import describe_error

COMPLETED = Complete()
# The message waits until the module is repaired, or until a worker of another release takes it.
WAIT_FOR_HANDLER = Defer(delay=timedelta(seconds=15))

logger = logging.getLogger("django_pgqueue.worker")


# Seconds between two log lines about the same name; names come from messages, so only so many are remembered.
LOG_UNKNOWN_SECONDS = 60.0
MOST_LOGGED_UNKNOWN = 1000
_logged_unknown: dict[str, float] = {}


class HandlerMissing(Defer):
    """This worker does not know the handler. Another one may: a deployment takes a while."""

    __match_args__ = ()

    def __init__(self) -> None:
        super().__init__()


@dataclass(slots=True)
class Execution:
    """The result of a delivery. Never changed; a frozen one would take three times as long to make.

    ``error`` describes what went wrong (for Retry); ``reason``: of the dead letter when the attempts are used up;
    ``raised``: the outcome left the handler as an exception.
    """

    delivery: Delivery
    outcome: Complete | Defer | Retry | DeadLetter | Cancelled
    error: Mapping[str, Any] | None = None
    reason: str = "failed"
    raised: bool = False
    seconds: float = 0.0


def run_handler(
    function: Callable[..., Any], deliveries: list[Delivery], *, batch: bool, backoff: BackoffFunction | None = None
) -> list[Execution]:
    """Run the function for the deliveries: in one call, if it takes a ``batch``, or for the one delivery."""
    if batch:
        return execute_batch(function, deliveries, backoff)
    return [execute(function, delivery, backoff) for delivery in deliveries]


def execute(
    function: Callable[[Delivery], Any], delivery: Delivery, backoff: BackoffFunction | None = None
) -> Execution:
    """Run the handler's function. Never raises: even SystemExit is the message's failure.

    ``backoff``: how long until the next attempt, see :func:`django_pgqueue.handlers.handler`.
    """
    started = time.monotonic()
    try:
        answer = function(delivery)
    except BaseException as error:
        return execution_of_error(delivery, error, time.monotonic() - started, backoff)
    return execution_of_answer(delivery, answer, time.monotonic() - started, backoff)


async def execute_async(
    function: Callable[[Delivery], Awaitable[Any]],
    delivery: Delivery,
    explain: Callable[[BaseException], BaseException],
    backoff: BackoffFunction | None = None,
) -> Execution:
    """Run as :func:`execute` does. ``explain``: maps an exception to its meaning; the canceller of a task knows it."""
    started = time.monotonic()
    try:
        answer = await function(delivery)
    except BaseException as error:
        return execution_of_error(delivery, explain(error), time.monotonic() - started, backoff)
    return execution_of_answer(delivery, answer, time.monotonic() - started, backoff)


def execute_batch(
    function: Callable[[list[Delivery]], Any], deliveries: list[Delivery], backoff: BackoffFunction | None = None
) -> list[Execution]:
    """Run the function of a handler with ``batch``. What it raises is the outcome of each message."""
    started = time.monotonic()
    try:
        answers = function(list(deliveries))
    except BaseException as error:
        return executions_of_error(deliveries, error, time.monotonic() - started, backoff)
    return executions_of_answers(deliveries, answers, time.monotonic() - started, backoff)


async def execute_batch_async(
    function: Callable[[list[Delivery]], Awaitable[Any]],
    deliveries: list[Delivery],
    explain: Callable[[BaseException], BaseException],
    backoff: BackoffFunction | None = None,
) -> list[Execution]:
    started = time.monotonic()
    try:
        answers = await function(list(deliveries))
    except BaseException as error:
        return executions_of_error(deliveries, explain(error), time.monotonic() - started, backoff)
    return executions_of_answers(deliveries, answers, time.monotonic() - started, backoff)


def execution_of_answer(delivery: Delivery, answer: Any, seconds: float, backoff: BackoffFunction | None) -> Execution:
    if answer is None:
        return Execution(delivery, COMPLETED, seconds=seconds)
    return apply_backoff(execution_of_outcome(delivery, answer, seconds=seconds), answer, backoff)


def execution_of_error(
    delivery: Delivery, error: BaseException, seconds: float, backoff: BackoffFunction | None
) -> Execution:
    if isinstance(error, Outcome):
        return apply_backoff(execution_of_outcome(delivery, error, raised=True, seconds=seconds), error, backoff)
    return apply_backoff(failed_execution(delivery, error, seconds=seconds), error, backoff)


def executions_of_answers(
    deliveries: list[Delivery], answers: Any, seconds: float, backoff: BackoffFunction | None
) -> list[Execution]:
    each = seconds / len(deliveries)
    if answers is None:
        return [Execution(delivery, COMPLETED, seconds=each) for delivery in deliveries]
    if not isinstance(answers, Mapping) or not answers.keys() <= {delivery.id for delivery in deliveries}:
        return [
            failed_execution(delivery, invalid_answer(delivery, answers, batch=True), seconds=each)
            for delivery in deliveries
        ]
    return [execution_of_answer(delivery, answers.get(delivery.id), each, backoff) for delivery in deliveries]


def executions_of_error(
    deliveries: list[Delivery], error: BaseException, seconds: float, backoff: BackoffFunction | None
) -> list[Execution]:
    return [execution_of_error(delivery, error, seconds / len(deliveries), backoff) for delivery in deliveries]


def apply_backoff(execution: Execution, error: Any, backoff: BackoffFunction | None) -> Execution:
    """The handler's own pause, if it failed and said none."""
    outcome, delivery = execution.outcome, execution.delivery
    if backoff is None or not isinstance(outcome, Retry) or outcome.after is not None:
        return execution
    if not isinstance(error, BaseException):
        error = outcome
    try:
        after = backoff(delivery.attempt, error)
        if after is not None and not (isinstance(after, timedelta) and after >= timedelta(0)):
            raise TypeError(f"it returned {after!r}, which is not a timedelta of zero or more")
    except Exception:
        logger.exception(
            "the backoff function failed for %s: the back-off of the message is taken", label(delivery),
            extra={"event": "backoff_failed", "message_id": delivery.id, "queue": delivery.queue},
        )  # fmt: skip
        return execution
    return replace(execution, outcome=Retry(after, outcome.error, outcome.state))


def execution_of_outcome(delivery: Delivery, answer: Any, *, raised: bool = False, seconds: float = 0.0) -> Execution:
    match answer:
        case Retry():
            error = describe_error(answer) | {
                "type": "Retry",
                "message": describe_error(Exception(answer.error))["message"],
            }
            return Execution(delivery, answer, error, raised=raised, seconds=seconds)
        case Complete() | Defer() | DeadLetter() | Cancelled():
            return Execution(delivery, answer, raised=raised, seconds=seconds)
    return failed_execution(delivery, invalid_answer(delivery, answer), seconds=seconds)


def failed_execution(
    delivery: Delivery, error: BaseException, *, reason: str = "failed", seconds: float = 0.0
) -> Execution:
    if isinstance(error, HandlerTimeout):
        reason = "timed_out"
    return Execution(delivery, Retry(), describe_error(error), reason, raised=True, seconds=seconds)


def stuck_execution(delivery: Delivery) -> Execution:
    """Return the execution of a handler that was interrupted and did not end."""
    return failed_execution(
        delivery, HandlerTimeout("The handler ran longer than its timeout, and did not end when told to.")
    )


def missing_handler(delivery: Delivery) -> Execution:
    """Let a message wait whose handler this worker does not have: for ever, if that is because of a broken module."""
    if handlers.broken:
        return Execution(delivery, WAIT_FOR_HANDLER)
    hint = "Define it in handlers.py of an installed app, and restart the workers."
    error = UnknownHandler(f"No handler is called {delivery.handler!r} in this worker.", hint=hint)
    log_unknown(delivery)
    return Execution(delivery, HandlerMissing(), describe_error(error), "rejected")


def log_unknown(delivery: Delivery) -> None:
    """Log the name of a handler that is missing, each at most once a minute: there may be many messages."""
    now = time.monotonic()
    if now < _logged_unknown.get(delivery.handler, 0.0) + LOG_UNKNOWN_SECONDS:
        return
    if len(_logged_unknown) >= MOST_LOGGED_UNKNOWN:
        _logged_unknown.clear()
    _logged_unknown[delivery.handler] = now
    logger.warning(
        "No handler is called %r in this worker. Its messages, such as %s, wait up to %s for a worker that has it, "
        "and then become dead letters. Define it in handlers.py of an installed app, and restart the workers.",
        delivery.handler, label(delivery), settings.UNKNOWN_HANDLER_GRACE,
        extra={
            "event": "unknown_handler", "message_id": delivery.id, "queue": delivery.queue, "channel": delivery.channel,
        },
    )  # fmt: skip


def invalid_answer(delivery: Delivery, answer: Any, *, batch: bool = False) -> HandlerError:
    kind = type(answer).__name__
    hint = "Return None, or Complete(result=…), Defer, Retry or DeadLetter."
    if batch:
        hint = "It takes a batch: return None, or a dict of outcomes by the ids of its messages."
    if inspect.iscoroutine(answer):
        answer.close()
        hint = "It returned a coroutine, which nobody awaits: define it with async def."
    elif isinstance(answer, type) and issubclass(answer, Outcome):
        kind, hint = f"the class {answer.__name__}", f"Return an instance: {answer.__name__}(…)."
    return HandlerError(
        f"The handler {delivery.handler!r} returned {kind}, which says nothing about its message.", hint=hint
    )
