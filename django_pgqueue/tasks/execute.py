"""Run a task as a handler: the payload has its arguments, and the result its return value."""

from __future__ import annotations

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any

from asgiref.sync import sync_to_async

from django_pgqueue.delivery import Delivery
from django_pgqueue.jsonb import to_json
from django_pgqueue.outcomes import Complete, Outcome, Reject
from django_pgqueue.tasks import result
from django_pgqueue.tasks.compat import Task, TaskContext, TaskResult, normalize_json, task_started
from django_pgqueue.tasks.message import arguments_of
from django_pgqueue.tasks.options import options_of
from django_pgqueue.tasks.typed import argument_types, called_arguments
from django_pgqueue.worker.failure import describe_error


def function_of(task: Task) -> Callable[[Delivery], Any]:
    """Return the handler's function for a task. An outcome that the task raises or returns is used unchanged."""
    typed = options_of(task).typed
    kinds = argument_types(task.func, takes_context=task.takes_context, typed=typed)
    # The loop must not wait for the database.
    has_rows = any(kind is not None and kind.rows for kind in kinds.values())
    fetch = sync_to_async(called_arguments) if has_rows else None

    def run(delivery: Delivery) -> Outcome:
        arguments = called_arguments(task, *call_arguments(delivery))
        started = result.running_result(delivery, task)
        task_started.send_robust(sender=result.sender_of(started), task_result=started)
        return outcome_of(task.call(*positional_arguments(task, started, arguments), **arguments[1]))

    async def run_async(delivery: Delivery) -> Outcome:
        given = call_arguments(delivery)
        arguments = await fetch(task, *given) if fetch else called_arguments(task, *given)
        # Only a repeated attempt reads the errors of the earlier ones from the database.
        look = sync_to_async(result.running_result) if delivery.attempt > 1 else None
        started = result.running_result(delivery, task) if look is None else await look(delivery, task)
        await task_started.asend_robust(sender=result.sender_of(started), task_result=started)
        return outcome_of(await task.acall(*positional_arguments(task, started, arguments), **arguments[1]))

    chosen: Any = run_async if iscoroutinefunction(task.func) else run
    chosen.__wrapped__ = task.func
    return chosen  # type: ignore[no-any-return]  # one of the two functions above


def call_arguments(delivery: Delivery) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments in the payload. Raises Reject for a payload that does not have them."""
    found = arguments_of(delivery.payload)
    if found is None:
        raise Reject(
            "invalid_arguments", "The payload of a task is an object with the list args and the object kwargs."
        )
    return found


def positional_arguments(task: Task, started: TaskResult, arguments: tuple[list[Any], dict[str, Any]]) -> list[Any]:
    """Return the positional arguments of the call, the context first if the task takes one."""
    return [TaskContext(task_result=started), *arguments[0]] if task.takes_context else arguments[0]


def outcome_of(value: Any) -> Outcome:
    """Return the outcome for a return value. A value that is not JSON makes a dead letter, not a retry."""
    if isinstance(value, Outcome):
        return value
    try:
        value = normalize_json(value)
        to_json(value, "return value")
    except (TypeError, ValueError, RecursionError) as error:
        return Reject("not_json", describe_error(error))
    return Complete(value)
