"""Convert the call of a task to a message, and a message to its arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django_pgqueue.delivery import NewMessage
from django_pgqueue.lifecycle.new_messages import retry_policy
from django_pgqueue.tasks.compat import InvalidTask, Task
from django_pgqueue.tasks.home import TaskHome
from django_pgqueue.tasks.options import CostOption, TextOption, is_cost, options_of
from django_pgqueue.tasks.typed import stored_arguments


@dataclass(frozen=True, slots=True)
class Call:
    """Hold a task and the arguments of one call, for ``enqueue_many``."""

    task: Task
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


def message_of(backend: TaskHome, call: Call) -> NewMessage:
    """Return the message of a call, with the options of the task and the defaults of the backend.

    Raises InvalidTask if a function of the options returns a wrong value, and TypeError or ValueError for arguments
    that are not JSON.
    """
    task, of_task, of_backend = call.task, options_of(call.task), backend.options
    args, kwargs = stored_arguments(task, call.args, call.kwargs)
    payload = {"args": args, "kwargs": kwargs}
    if backend.alias != backend.home_of(task):
        payload["backend"] = backend.alias

    def option(name: str) -> Any:
        given = getattr(task, name, None)
        return text_option(name, getattr(of_task, name), call) if given is None else given

    max_attempts, backoff = getattr(task, "max_attempts", None), getattr(task, "backoff", None)
    if max_attempts is None:
        max_attempts = of_task.max_attempts or of_backend.get("MAX_ATTEMPTS")
    if backoff is None:
        # The definition's own back-off applies through its handler, where the worker also calls a function.
        backoff = None if of_task.backoff is not None else of_backend.get("BACKOFF")
    return NewMessage(
        handler=task.module_path,
        payload=payload,
        channel=option("channel") or of_backend.get("CHANNEL", "default"),
        queue=task.queue_name,
        headers=getattr(task, "headers", None),
        priority=int(task.priority),
        dequeue_at=task.run_after,
        max_attempts=max_attempts,
        backoff=backoff,
        dedupe_key=option("dedupe_key"),
        order_key=option("order_key"),
        limits=getattr(task, "limits", None),
        cost=getattr(task, "cost", None) or cost_option(of_task.cost, call),
    )


def text_option(name: str, option: TextOption, call: Call) -> str | None:
    """Return the text of an option, which may be a function of the call's arguments. Raises InvalidTask.

    ``name``: the option's name, for the error.
    """
    if option is None or isinstance(option, str):
        return option
    answer = option(*call.args, **call.kwargs)
    if answer is None or (isinstance(answer, str) and 1 <= len(answer) <= 200):
        return answer
    raise InvalidTask(
        f"The function for {name} of {call.task.module_path} returned {answer!r}: it takes a text of 1 to 200 "
        "characters, or None."
    )


def cost_option(option: CostOption, call: Call) -> int | None:
    """Return the cost of a call, which may be a function of its arguments. Raises InvalidTask."""
    answer = option(*call.args, **call.kwargs) if callable(option) else option
    if answer is None or is_cost(answer):
        return answer
    raise InvalidTask(
        f"The function for cost of {call.task.module_path} returned {answer!r}: it takes a whole number from 1 on, or "
        "None."
    )


def as_defined(backend: TaskHome, definition: Call, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``facts`` without those that follow from the definition of the task.

    ``definition``: the task as it is defined, with the arguments of the call. ``facts``: channel,
    dedupe_key, order_key and max_attempts of the message. With this, a task that is read equals the one that was
    enqueued.
    """
    try:
        own = message_of(backend, definition)
        by_itself = {
            "channel": own.channel, "dedupe_key": own.dedupe_key, "order_key": own.order_key,
            "max_attempts": retry_policy(definition.task.module_path, own.max_attempts)[0],
        }  # fmt: skip
    except Exception:  # a function of the project, with arguments that may have been edited
        return dict(facts)
    return {name: fact for name, fact in facts.items() if fact != by_itself[name]}


def arguments_of(payload: Any) -> tuple[list[Any], dict[str, Any]] | None:
    """Return the arguments in a payload: empty without a payload, None if they are malformed."""
    if payload is None:
        return [], {}
    if not isinstance(payload, dict):
        return None
    args, kwargs = payload.get("args", []), payload.get("kwargs", {})
    return (args, kwargs) if isinstance(args, list) and isinstance(kwargs, dict) else None
