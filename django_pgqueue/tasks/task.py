"""Define the class of tasks, which has the queue's own fields of a call in addition to Django's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any

from django_pgqueue.backoff import Constant, Exponential, Policy
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.limits import Limit, limit_names
from django_pgqueue.tasks.compat import InvalidTask, Task


# The class uses no zero-argument super(), because a dataclass with slots is another class than the one in the source.
@dataclass(frozen=True, slots=True, kw_only=True)
class PgQueueTask(Task):
    """Hold a task with the fields of the queue, which :meth:`using` sets for one call.

    None means the value of the definition's @options, then of the backend, then of the settings. ``channel``: the name
    of the channel. ``dedupe_key``: while a task of the channel with this key is live, another one is not enqueued.
    ``order_key``: tasks of the channel with this key run one after the other, in order. ``max_attempts``, ``backoff``:
    the retry policy. ``headers``: JSON beside the arguments, the context of the call. ``limits``: names of shared
    limits, in addition to those of the definition. ``cost``: the tokens of rates that the call takes.
    Tasks that differ in ``backoff``, ``headers``, ``limits`` or ``cost`` alone are equal, because these cannot be read
    back for a result.
    """

    channel: str | None = None
    dedupe_key: str | None = None
    order_key: str | None = None
    max_attempts: int | None = None
    # The archive does not keep the back-off, and ENQUEUE_CONTEXT adds to the headers.
    backoff: Policy | None = field(default=None, compare=False)
    headers: Mapping[str, Any] | None = field(default=None, compare=False)
    limits: Iterable[str | Limit] | None = field(default=None, compare=False)
    cost: int | None = field(default=None, compare=False)

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: datetime | None = None,
        backend: str | None = None,
        channel: str | None = None,
        dedupe_key: str | None = None,
        order_key: str | None = None,
        max_attempts: int | None = None,
        backoff: Policy | None = None,
        headers: Mapping[str, Any] | None = None,
        limits: Iterable[str | Limit] | None = None,
        cost: int | None = None,
    ) -> PgQueueTask:
        """Return a copy of the task with other values for one call; None keeps a value. Raises InvalidTask."""
        given: dict[str, Any] = {
            "priority": priority, "queue_name": queue_name, "run_after": run_after, "backend": backend,
            "channel": channel, "dedupe_key": dedupe_key, "order_key": order_key,
            "max_attempts": max_attempts, "backoff": backoff, "headers": headers,
            "limits": limits if limits is None or isinstance(limits, str) else tuple(limits), "cost": cost,
        }  # fmt: skip
        return replace(self, **{name: value for name, value in given.items() if value is not None})


def check_task(task: Task) -> None:
    """Raise InvalidTask for a wrong value in a field of the queue, and for a name that is too long for a message."""
    if len(task.module_path) > 200:
        raise InvalidTask(f"The path of the task has more than 200 characters: {task.module_path}.")
    if not 1 <= len(task.queue_name) <= 100:
        raise InvalidTask("The name of the queue has to have 1 to 100 characters.")
    if not isinstance(task, PgQueueTask):
        return
    for name in ("channel", "dedupe_key", "order_key"):
        value = getattr(task, name)
        if value is not None and not (isinstance(value, str) and 1 <= len(value) <= 200):
            raise InvalidTask(f"{name} must be a text of 1 to 200 characters, not {value!r}.")
    if task.max_attempts is not None and not (isinstance(task.max_attempts, int) and task.max_attempts >= 1):
        raise InvalidTask(f"max_attempts must be a whole number of at least 1, not {task.max_attempts!r}.")
    if task.backoff is not None and not isinstance(task.backoff, timedelta | Constant | Exponential):
        raise InvalidTask(
            f"backoff must be a timedelta, Constant or Exponential, not {task.backoff!r}: a function belongs into "
            "@options, where the worker finds it."
        )
    if task.headers is not None and not isinstance(task.headers, Mapping):
        raise InvalidTask(f"headers must be a mapping, not {task.headers!r}.")
    if task.cost is not None and (type(task.cost) is not int or task.cost < 1):
        raise InvalidTask(f"cost must be a whole number of at least 1, not {task.cost!r}.")
    try:
        limit_names(task.limits)
    except InvalidMessage as error:
        raise InvalidTask(f"limits must be names of shared limits: {error.message}.") from None


def stored_task(task: Task, **facts: Any) -> Task:
    """Return a copy of the task with the values of a message (``facts``).

    It is not validated, so that a message stays readable under other settings.
    """
    kind = type(task)
    found = object.__new__(kind)
    for item in fields(kind):
        object.__setattr__(found, item.name, facts.get(item.name, getattr(task, item.name)))
    return found
