"""Run a handler and turn its answer or exception into an execution, which the completer writes."""

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
from django_pgqueue.outcomes import Cancelled, Complete, Defer, Outcome, Reject, Retry
from django_pgqueue.signatures import BackoffFunction
from django_pgqueue.worker.failure import describe_error
from django_pgqueue.worker.numbers import LOG_UNKNOWN_SECONDS, MOST_LOGGED_NAMES

COMPLETED = Complete()
HANDLER_ERROR = f"{HandlerError.__module__}.{HandlerError.__qualname__}"
# While a handler module is broken, messages wait until it is repaired or a worker of another release takes them.
WAIT_FOR_HANDLER = Defer(delay=timedelta(seconds=15))

logger = logging.getLogger("django_pgqueue.worker")

_logged_unknown: dict[str, float] = {}


class HandlerMissing(Defer):
    """Defer a message whose handler this worker does not have; during a deployment another worker may have it."""

    __match_args__ = ()

    def __init__(self) -> None:
        super().__init__()


@dataclass(slots=True)
class Execution:
    """Hold the result of one delivery. No code changes it; a frozen dataclass would take three times as long to make.

    ``outcome``: what is to be written. ``error``: type, message and traceback of a failure (for Retry). ``reason``: the
    reason of the dead letter, if a Retry has used up the attempts. ``raised``: the handler raised the outcome, or
    failed. ``seconds``: how long the handler ran; for a batch, its share; 0: it did not run, or the time is unknown.
    ``log``: what the call has logged, if that is kept.
    """

    delivery: Delivery
    outcome: Complete | Defer | Retry | Reject | Cancelled
    error: Mapping[str, Any] | None = None
    reason: str = "failed"
    raised: bool = False
    seconds: float = 0.0
    log: str | None = None

    @property
    def is_given_back(self) -> bool:
        """Return whether the message goes back and was not started, though this process has its handler."""
        if self.seconds or not isinstance(self.outcome, Defer):
            return False
        return self.outcome is not WAIT_FOR_HANDLER and not isinstance(self.outcome, HandlerMissing)

    @property
    def is_handler_error(self) -> bool:
        """Return whether the error is the queue's own HandlerError, and not one of the project of a similar name."""
        return self.error is not None and self.error.get("type") == HANDLER_ERROR


def execute(
    function: Callable[[Delivery], Any], delivery: Delivery, backoff: BackoffFunction | None = None
) -> Execution:
    """Run the function of a handler for one delivery, and return the execution.

    ``backoff``: the handler's own back-off function, see :func:`django_pgqueue.handlers.handler`. Never raises: even
    SystemExit is a failure of the message.
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
    """Await the function of an async handler for one delivery, as :func:`execute`.

    ``explain``: maps an exception to its cause, because a CancelledError may be a timeout or a cancelled message.
    """
    started = time.monotonic()
    try:
        answer = await function(delivery)
    except BaseException as error:
        return execution_of_error(delivery, explain(error), time.monotonic() - started, backoff)
    return execution_of_answer(delivery, answer, time.monotonic() - started, backoff)


def execute_batch(
    function: Callable[[list[Delivery]], Any], deliveries: list[Delivery], backoff: BackoffFunction | None = None
) -> list[Execution]:
    """Run the function of a handler with ``batch`` once for all deliveries. Returns an execution for each.

    An exception applies to every message.
    """
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
    """Await the function of an async handler with ``batch``, as :func:`execute_batch` and :func:`execute_async`."""
    started = time.monotonic()
    try:
        answers = await function(list(deliveries))
    except BaseException as error:
        return executions_of_error(deliveries, explain(error), time.monotonic() - started, backoff)
    return executions_of_answers(deliveries, answers, time.monotonic() - started, backoff)


def execution_of_answer(delivery: Delivery, answer: Any, seconds: float, backoff: BackoffFunction | None) -> Execution:
    """Return the execution for what a handler returned after ``seconds``; None means Complete."""
    if answer is None:
        return Execution(delivery, COMPLETED, seconds=seconds)
    return apply_backoff(execution_of_outcome(delivery, answer, seconds=seconds), answer, backoff)


def execution_of_error(
    delivery: Delivery, error: BaseException, seconds: float, backoff: BackoffFunction | None
) -> Execution:
    """Return the execution for what a handler raised after ``seconds``: an outcome, or an error, which is a Retry."""
    if isinstance(error, Outcome):
        return apply_backoff(execution_of_outcome(delivery, error, raised=True, seconds=seconds), error, backoff)
    return apply_backoff(failed_execution(delivery, error, seconds=seconds), error, backoff)


def executions_of_answers(
    deliveries: list[Delivery], answers: Any, seconds: float, backoff: BackoffFunction | None
) -> list[Execution]:
    """Return the executions for what the handler of a batch returned: None, or a dict of outcomes by message id.

    Each message gets an equal share of ``seconds``. Any other answer is a failure of all messages.
    """
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
    """Return the executions for what the handler of a batch raised: the same outcome for each message.

    ``seconds``: how long the whole batch ran; each message gets an equal part.
    """
    return [execution_of_error(delivery, error, seconds / len(deliveries), backoff) for delivery in deliveries]


def apply_backoff(execution: Execution, error: Any, backoff: BackoffFunction | None) -> Execution:
    """Return the execution with the pause of the handler's own back-off function, if it is a Retry without a pause.

    ``error``: the exception or outcome, which the function gets together with the attempt. If the function fails, that
    is logged, and the message's own back-off applies.
    """
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
            "the backoff function of the handler failed for %s: the message's own back-off applies. Correct the "
            "function: it returns a timedelta of zero or more, or None", label(delivery),
            extra={"event": "backoff_failed", "message_id": delivery.id, "queue": delivery.queue},
        )  # fmt: skip
        return execution
    return replace(execution, outcome=Retry(after, outcome.error, outcome.state))


def execution_of_outcome(delivery: Delivery, answer: Any, *, raised: bool = False, seconds: float = 0.0) -> Execution:
    """Return the execution for an answer that is an outcome; any other value is a failure.

    ``raised``: the handler raised the outcome. ``seconds``: how long the handler ran.
    """
    match answer:
        case Retry():
            error = describe_error(answer) | {
                "type": "Retry",
                "message": describe_error(Exception(answer.error))["message"],
            }
            return Execution(delivery, answer, error, raised=raised, seconds=seconds)
        case Complete() | Defer() | Reject() | Cancelled():
            return Execution(delivery, answer, raised=raised, seconds=seconds)
    return failed_execution(delivery, invalid_answer(delivery, answer), seconds=seconds)


def failed_execution(delivery: Delivery, error: BaseException, *, seconds: float = 0.0) -> Execution:
    """Return the execution of a failed handler: a Retry with the description of ``error``."""
    reason = "timed_out" if isinstance(error, HandlerTimeout) else "failed"
    return Execution(delivery, Retry(), describe_error(error), reason, raised=True, seconds=seconds)


def failed_executions(executions: list[Execution], error: BaseException) -> list[Execution]:
    """Return the executions as failures by ``error``; those that have failed already keep their own."""
    return [
        execution
        if isinstance(execution.outcome, Retry)
        else replace(failed_execution(execution.delivery, error, seconds=execution.seconds), log=execution.log)
        for execution in executions
    ]


def stuck_execution(delivery: Delivery, seconds: float) -> Execution:
    """Return the execution of a handler that was interrupted and did not end. ``seconds``: how long it has run."""
    error = HandlerTimeout("The handler ran longer than its timeout, and did not end when it was interrupted.")
    return failed_execution(delivery, error, seconds=seconds)


def missing_handler(delivery: Delivery) -> Execution:
    """Return an execution that lets a message wait whose handler this worker does not have.

    If a handler module is broken, the message is deferred without a limit. Otherwise it waits up to
    UNKNOWN_HANDLER_GRACE, and a line is logged.
    """
    if handlers.broken:
        return Execution(delivery, WAIT_FOR_HANDLER)
    hint = "Define it in handlers.py of an installed app, and restart the workers."
    error = UnknownHandler(f"No handler is called {delivery.handler!r} in this worker.", hint=hint)
    log_unknown(delivery)
    return Execution(delivery, HandlerMissing(), describe_error(error), "unknown_handler")


def log_unknown(delivery: Delivery) -> None:
    """Log the name of a missing handler, each name at most once a minute, because many messages may have it."""
    now = time.monotonic()
    if now < _logged_unknown.get(delivery.handler, 0.0) + LOG_UNKNOWN_SECONDS:
        return
    if len(_logged_unknown) >= MOST_LOGGED_NAMES:
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
    """Return the error for an answer that is no outcome, with a hint about the usual mistakes.

    ``batch``: the handler takes a batch, so the hint describes a dict. A coroutine is closed, so that Python does not
    warn about it.
    """
    kind = type(answer).__name__
    hint = "Return None, or Complete(result=…), Defer, Retry or Reject."
    if batch:
        hint = "It takes a batch: return None, or a dict of outcomes by the ids of its messages."
    if inspect.iscoroutine(answer):
        answer.close()
        hint = "It returned a coroutine, which is not awaited: define it with async def."
    elif isinstance(answer, type) and issubclass(answer, Outcome):
        kind, hint = f"the class {answer.__name__}", f"Return an instance: {answer.__name__}(…)."
    return HandlerError(f"The handler {delivery.handler!r} returned {kind}, which is not an outcome.", hint=hint)
