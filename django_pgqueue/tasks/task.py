"""The task, with what the queue knows of one call beyond Django's own fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any

from django_pgqueue.backoff import Constant, Exponential, Policy
from django_pgqueue.tasks.compat import InvalidTask, Task


# No zero-argument super() in here: a dataclass with slots is another class than the one that was written.
@dataclass(frozen=True, slots=True, kw_only=True)
class PgQueueTask(Task):
    """``using`` takes them, too; None: what the definition says, then the backend, then the settings.

    ``channel``: the tenant's lane. ``dedupe_key``: while a task of the channel with this key is live, another one is
    not enqueued. ``max_attempts``, ``backoff``: retry policy. ``headers``: JSON beside the arguments, the context of
    the call. Tasks that differ in ``backoff`` or ``headers`` alone are equal: a result does not tell them.
    """

    channel: str | None = None
    dedupe_key: str | None = None
    max_attempts: int | None = None
    # The archive does not keep the one, and middleware adds to the other.
    backoff: Policy | None = field(default=None, compare=False)
    headers: Mapping[str, Any] | None = field(default=None, compare=False)

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: datetime | None = None,
        backend: str | None = None,
        channel: str | None = None,
        dedupe_key: str | None = None,
        max_attempts: int | None = None,
        backoff: Policy | None = None,
        headers: Mapping[str, Any] | None = None,
    ) -> PgQueueTask:
        """Return the task with other values. Raises InvalidTask."""
        given: dict[str, Any] = {
            "priority": priority, "queue_name": queue_name, "run_after": run_after, "backend": backend,
            "channel": channel, "dedupe_key": dedupe_key, "max_attempts": max_attempts, "backoff": backoff,
            "headers": headers,
        }  # fmt: skip
        return replace(self, **{name: value for name, value in given.items() if value is not None})


def check_task(task: Task) -> None:
    """The fields that are ours, and what a message cannot hold. Raises InvalidTask."""
    if len(task.module_path) > 200:
        raise InvalidTask(f"The path of the task has more than 200 characters: {task.module_path}.")
    if not 1 <= len(task.queue_name) <= 100:
        raise InvalidTask("The name of the queue has to have 1 to 100 characters.")
    if not isinstance(task, PgQueueTask):
        return
    for name in ("channel", "dedupe_key"):
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


def stored_task(task: Task, **facts: Any) -> Task:
    """Return the task of a message. Not validated: a message stays readable under other settings."""
    kind = type(task)
    found = object.__new__(kind)
    for item in fields(kind):
        object.__setattr__(found, item.name, facts.get(item.name, getattr(task, item.name)))
    return found
