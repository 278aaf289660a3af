"""Run a handler and turn its answer or exception into an execution, which the completer writes."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from django_pgqueue import handlers
from django_pgqueue.conf import settings
from django_pgqueue.delivery import Delivery, label
from django_pgqueue.exceptions import HandlerError, HandlerTimeout, UnknownHandler
from django_pgqueue.handlers import Function
from django_pgqueue.outcomes import Cancelled, Complete, Defer, Outcome, Reject, Retry
from django_pgqueue.signatures import BackoffFunction
from django_pgqueue.worker import numbers
from django_pgqueue.worker.capture import Log, level_of
from django_pgqueue.worker.failure import describe_error

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
    function: Function, given: Delivery | list[Delivery], backoff: BackoffFunction | None = None, log: str | None = None
) -> list[Execution]:
    """Run the function of a handler for one delivery, or with ``batch`` for a list. Returns an execution for each.

    ``backoff``: the handler's own back-off function, see :func:`django_pgqueue.handlers.handler`. ``log``: the lowest
    level of the records that are kept with the executions. Never raises: even SystemExit is a failure of the message.
    """
    if log is not None and (level := level_of(log)) is not None:
        with Log(level) as kept:
            return with_log(execute(function, given, backoff), kept)
    started = time.monotonic()
    try:
        answer = function(given.copy() if isinstance(given, list) else given)
    except BaseException as error:
        return executions_of(given, error, time.monotonic() - started, backoff, raised=True)
    return executions_of(given, answer, time.monotonic() - started, backoff)


async def execute_async(
    function: Function,
    given: Delivery | list[Delivery],
    explain: Callable[[BaseException], BaseException],
    backoff: BackoffFunction | None = None,
    log: str | None = None,
) -> list[Execution]:
    """Await the function of an async handler, as :func:`execute`.

    ``explain``: maps an exception to its cause, because a CancelledError may be a timeout or a cancelled message.
    """
    if log is not None and (level := level_of(log)) is not None:
        with Log(level) as kept:
            return with_log(await execute_async(function, given, explain, backoff), kept)
    started = time.monotonic()
    try:
        answer = await function(given.copy() if isinstance(given, list) else given)
    except BaseException as error:
        return executions_of(given, explain(error), time.monotonic() - started, backoff, raised=True)
    return executions_of(given, answer, time.monotonic() - started, backoff)


def with_log(executions: list[Execution], kept: Log) -> list[Execution]:
    """Give each execution the log of its call; those of a batch share the room for one."""
    text = kept.text(numbers.LOG_CHARACTERS // len(executions))
    for execution in executions:
        execution.log = text
    return executions


def executions_of(
    given: Delivery | list[Delivery],
    answer: Any,
    seconds: float,
    backoff: BackoffFunction | None,
    *,
    raised: bool = False,
) -> list[Execution]:
    """Return the executions for what a handler returned, or ``raised``, after ``seconds``.

    A batch answers None, or a dict of outcomes by message id; an exception applies to each message, and any other
    answer is a failure of all. Each message gets an equal share of the time.
    """
    if not isinstance(given, list):
        return [execution_of(given, answer, seconds, backoff, raised=raised)]
    each = seconds / len(given)
    if raised:
        return [execution_of(delivery, answer, each, backoff, raised=True) for delivery in given]
    answers = {} if answer is None else answer
    if not isinstance(answers, Mapping) or not answers.keys() <= {delivery.id for delivery in given}:
        return [
            failed_execution(delivery, invalid_answer(delivery, answers, batch=True), seconds=each)
            for delivery in given
        ]
    return [execution_of(delivery, answers.get(delivery.id), each, backoff) for delivery in given]


def execution_of(
    delivery: Delivery, answer: Any, seconds: float, backoff: BackoffFunction | None, *, raised: bool = False
) -> Execution:
    """Return the execution for the answer of a handler, or what it ``raised``, after ``seconds``.

    None means Complete, and an outcome is itself. An exception is a Retry, and so is a value that is no outcome.
    """
    if answer is None:
        return Execution(delivery, COMPLETED, seconds=seconds)
    match answer:
        case Retry():
            text = describe_error(Exception(answer.error))["message"]
            error = describe_error(answer) | {"type": "Retry", "message": text}
            execution = Execution(delivery, answer, error, raised=raised, seconds=seconds)
        case Complete() | Defer() | Reject() | Cancelled():
            return Execution(delivery, answer, raised=raised, seconds=seconds)
        case _:
            failure = answer if raised else invalid_answer(delivery, answer)
            execution = failed_execution(delivery, failure, seconds=seconds)
    return apply_backoff(execution, answer if isinstance(answer, BaseException) else execution.outcome, backoff)


def apply_backoff(execution: Execution, error: BaseException, backoff: BackoffFunction | None) -> Execution:
    """Return the execution with the pause of the handler's own back-off function, if it is a Retry without a pause.

    ``error``: the exception or outcome, which the function gets together with the attempt. If the function fails, that
    is logged, and the message's own back-off applies.
    """
    outcome, delivery = execution.outcome, execution.delivery
    if backoff is None or not isinstance(outcome, Retry) or outcome.after is not None:
        return execution
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
    if now < _logged_unknown.get(delivery.handler, 0.0) + numbers.LOG_UNKNOWN_SECONDS:
        return
    if len(_logged_unknown) >= numbers.MOST_LOGGED_NAMES:
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
