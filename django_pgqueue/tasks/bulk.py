"""Enqueue many calls at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from asgiref.sync import sync_to_async

from django_pgqueue.tasks.compat import InvalidTask, TaskResult
from django_pgqueue.tasks.message import Call


def enqueue_many(calls: Iterable[Call]) -> list[TaskResult]:
    """Enqueue many calls in one statement, all or none. Returns the results in the order of the calls.

    A backend of another package, as in tests, enqueues each call by itself. Raises what ``enqueue`` raises, and
    InvalidTask for tasks of different backends.
    """
    listed = list(calls)
    if len({call.task.backend for call in listed}) > 1:
        raise InvalidTask("The tasks of one enqueue_many have to have one backend.")
    if not listed:
        return []
    backend = listed[0].task.get_backend()
    many: Callable[[list[Call]], list[TaskResult]] | None = getattr(backend, "enqueue_many", None)
    if many is not None:
        return many(listed)
    return [call.task.enqueue(*call.args, **call.kwargs) for call in listed]


aenqueue_many = sync_to_async(enqueue_many)
