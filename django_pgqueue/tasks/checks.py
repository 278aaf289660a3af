"""Check the setting TASKS without a database. The framework calls this for each backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as Caution

from django_pgqueue.backoff import Constant, Exponential
from django_pgqueue.tasks.home import TaskHome

Rule = tuple[str, Callable[[Any], bool]]

RULES: dict[str, Rule] = {
    "MODULES": (
        "a list of dotted paths of modules",
        lambda value: isinstance(value, list | tuple) and all(isinstance(item, str) and item for item in value),
    ),
    "CHANNEL": ("a text of 1 to 200 characters", lambda value: isinstance(value, str) and 1 <= len(value) <= 200),
    "MAX_ATTEMPTS": (
        "a whole number of at least 1",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 1,
    ),
    "BACKOFF": (
        "a timedelta, Constant or Exponential",
        lambda value: isinstance(value, timedelta | Constant | Exponential),
    ),
    "ON_REFUSED": ('"raise" or "return"', lambda value: value in ("raise", "return")),
}


def task_messages(backend: TaskHome) -> Iterator[CheckMessage]:
    """Yield the problems of a backend's entry in TASKS."""
    place = f"TASKS[{backend.alias!r}]"
    if not apps.is_installed("django_pgqueue"):
        yield Error(
            f"{place} keeps tasks in django_pgqueue, which is not installed.",
            hint='Add "pgtrigger" and "django_pgqueue" to INSTALLED_APPS, and run migrate.',
            id="pgqueue.E019",
        )
    for name in sorted(set(backend.options) - set(RULES), key=str):
        yield Error(
            f'{place}["OPTIONS"] has an unknown option {name!r}.',
            hint=f"Correct or remove it. Known options: {', '.join(sorted(RULES))}.",
            id="pgqueue.E020",
        )
    for name in sorted(set(backend.options) & set(RULES)):
        words, holds = RULES[name]
        if not holds(backend.options[name]):
            yield Error(
                f'{place}["OPTIONS"][{name!r}] is {backend.options[name]!r}, which is not {words}.',
                hint=f"Give it {words}.",
                id="pgqueue.E021",
            )
    if backend.params.get("ENQUEUE_ON_COMMIT"):
        yield Caution(
            f"{place} has ENQUEUE_ON_COMMIT, which changes nothing: a task is enqueued in its caller's transaction, "
            "and is there for workers when that commits.",
            hint="Remove it.",
            id="pgqueue.W020",
        )
