"""Define the queue's options of a task. They only mark the function, so other backends ignore them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from inspect import iscoroutinefunction
from typing import Any, TypeVar

from django_pgqueue import handlers
from django_pgqueue.backoff import Policy
from django_pgqueue.limits import Limit, limit_names
from django_pgqueue.outcomes import Archive
from django_pgqueue.signatures import BackoffFunction, check_switches, refuse_async
from django_pgqueue.tasks.compat import Task

MARK = "pgqueue_options"
Marked = TypeVar("Marked")
# A text, or a function that takes the call's arguments and returns a text or None.
TextOption = str | Callable[..., str | None] | None
# A number from 1 on, or a function that takes the call's arguments and returns one or None.
CostOption = int | Callable[..., int | None] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Hold the options of a task; see :func:`options`."""

    channel: TextOption = None
    dedupe_key: TextOption = None
    order_key: TextOption = None
    max_attempts: int | None = None
    backoff: Policy | BackoffFunction | None = None
    atomic: bool = False
    timeout: timedelta | None = None
    concurrency: int | None = None
    archive: Archive | None = None
    limits: tuple[str, ...] = ()
    cost: CostOption = None
    typed: bool = False
    log: str | None = None

    def policy(self) -> dict[str, Any]:
        """Return the arguments of :func:`django_pgqueue.handlers.handler`."""
        return {
            "max_attempts": self.max_attempts, "backoff": self.backoff, "atomic": self.atomic, "timeout": self.timeout,
            "concurrency": self.concurrency, "archive": self.archive, "limits": self.limits, "log": self.log,
        }  # fmt: skip


DEFAULTS = Options()


def options(
    *,
    channel: TextOption = None,
    dedupe_key: TextOption = None,
    order_key: TextOption = None,
    max_attempts: int | None = None,
    backoff: Policy | BackoffFunction | None = None,
    atomic: bool = False,
    timeout: timedelta | None = None,
    concurrency: int | None = None,
    archive: Archive | None = None,
    limits: Iterable[str | Limit] = (),
    cost: CostOption = None,
    typed: bool = False,
    log: str | None = None,
) -> Callable[[Marked], Marked]:
    """Set how the decorated task is queued and run; it stands above or below ``@task``.

    ``channel``: the name of the channel. ``dedupe_key``: while a task of the channel with this key is live, another one
    is not enqueued. ``order_key``: tasks of the channel with this key run one after the other, in order. These are
    texts, or functions that take the arguments of the call. ``max_attempts``, ``backoff``, ``atomic``, ``timeout``,
    ``concurrency``, ``archive``, ``limits``, ``log``: as of :func:`django_pgqueue.handler`. The result of a task that
    is archived as ``outcome`` or ``none`` cannot be fetched. ``cost``: the tokens of rates that a call takes, from
    1 on, or a function of its arguments that returns them. ``typed``: the arguments have the types of their
    annotations, as in :mod:`django_pgqueue.payloads`: datetimes, Decimal, rows of models … An argument without
    annotation is JSON. The function is called with them; results show their JSON.

    Raises ValueError for wrong values, and for options that exclude each other.
    """
    given = Options(
        channel=channel, dedupe_key=dedupe_key, order_key=order_key, max_attempts=max_attempts, backoff=backoff,
        atomic=atomic, timeout=timeout, concurrency=concurrency, archive=archive, limits=limit_names(limits), cost=cost,
        typed=typed, log=log,
    )  # fmt: skip
    check_switches("a task", {"typed": typed})
    if not (cost is None or callable(cost) or is_cost(cost)):
        raise ValueError(f"cost is {cost!r}: it takes a whole number from 1 on, or a function.")
    for name, value in (("channel", channel), ("dedupe_key", dedupe_key), ("order_key", order_key)):
        if not (value is None or callable(value) or (isinstance(value, str) and 1 <= len(value) <= 200)):
            raise ValueError(f"{name} is {value!r}: it takes a text of 1 to 200 characters, or a function.")

    def mark(marked: Marked) -> Marked:
        function: Any = marked.func if isinstance(marked, Task) else marked
        name = f"{function.__module__}.{function.__qualname__}"
        handlers.handler(name, **given.policy())
        if iscoroutinefunction(function):
            refuse_async(name, atomic=atomic)
        setattr(function, MARK, given)
        return marked

    return mark


def is_cost(value: Any) -> bool:
    """Return whether a message may have this cost."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def options_of(task: Task | Callable[..., Any]) -> Options:
    """Return the options of the task, or the defaults."""
    return getattr(task.func if isinstance(task, Task) else task, MARK, DEFAULTS)
