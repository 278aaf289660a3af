"""The contract that Django documents for tasks before they are enqueued, run against our backend."""

from __future__ import annotations

import copy
from datetime import datetime
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from django_pgqueue.tasks.compat import (
    InvalidTask,
    task,
)
from tests.support.cases import cases
from tests.tasks import defined

pytestmark = pytest.mark.usefixtures("queue")


def test_a_task_can_still_be_called_as_a_function() -> None:
    assert defined.add.call(1, right=2) == defined.add.func(1, 2) == 3
    assert async_to_sync(defined.add_slowly.acall)(1) == 2


def test_using_leaves_the_task_as_it_is() -> None:
    urgent = defined.add.using(priority=100, queue_name="mail")
    assert (urgent.priority, urgent.queue_name, urgent.func) == (100, "mail", defined.add.func)
    assert (defined.add.priority, defined.add.queue_name) == (0, "default")
    assert urgent != defined.add
    assert copy.copy(defined.add) == defined.add
    assert len({defined.add, copy.copy(defined.add), urgent}) == 2


@cases(
    "values",
    [
        {"priority": 101},
        {"priority": -101},
        {"priority": 1.5},
        {"queue_name": "unknown"},
        {"run_after": datetime(2026, 1, 1)},  # noqa: DTZ001
    ],
)
def test_invalid_values_of_a_task_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask):
        defined.add.using(**values)


def test_a_function_within_a_function_is_no_task() -> None:
    def inner() -> None: ...

    for function in (inner, lambda: None, "text", print):
        with pytest.raises((InvalidTask, AttributeError)):
            task()(function)


def test_a_context_is_the_first_argument_or_none() -> None:
    with pytest.raises(InvalidTask, match="context"):
        task(takes_context=True)(defined.plain)


def test_no_queues_means_any_queue() -> None:
    assert defined.add.using(queue_name="whatever", backend="other").queue_name == "whatever"
