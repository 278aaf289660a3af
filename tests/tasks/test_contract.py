"""The contract that Django documents for every backend, and for results, run against ours."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import SynchronousOnlyOperation
from django.test import override_settings
from django.utils import timezone

from django_pgqueue import channel_set
from django_pgqueue.models import Message
from django_pgqueue.tasks import Call, enqueue_many
from django_pgqueue.tasks.compat import TaskResultDoesNotExist, TaskResultMismatch, TaskResultStatus, task_backends
from tests.support.cases import cases
from tests.tasks import defined

pytestmark = pytest.mark.usefixtures("queue")
Drain = Callable[..., dict[str, int]]


def test_an_enqueued_task_is_ready_and_has_not_started() -> None:
    result = defined.add.enqueue(1, right=2)
    assert result.status == TaskResultStatus.READY
    assert (result.args, result.kwargs) == ([1], {"right": 2})
    assert (result.backend, result.task) == ("default", defined.add)
    assert (result.started_at, result.finished_at, result.last_attempted_at) == (None, None, None)
    assert (result.errors, result.worker_ids, result.attempts, result.is_finished) == ([], [], 0, False)
    assert timezone.now() - result.enqueued_at < timedelta(seconds=10)
    assert isinstance(result.id, str)
    assert len(result.id) <= 64
    with pytest.raises(ValueError, match="has not finished"):
        result.return_value  # noqa: B018


def test_async_code_enqueues_as_well(drain: Drain) -> None:
    result = async_to_sync(defined.add.aenqueue)(1, right=2)
    drain()
    async_to_sync(result.arefresh)()
    assert result.return_value == 3
    assert async_to_sync(defined.add.aget_result)(result.id).return_value == 3


@pytest.mark.parametrize("function", [defined.add, defined.add_slowly], ids=["sync", "async"])
def test_the_return_value_is_there_when_it_has_run(function: Any, drain: Drain) -> None:
    result = function.enqueue(40, 2)
    assert drain() == {"completed": 1}
    assert result.status == TaskResultStatus.READY, "until it is refreshed"
    result.refresh()
    assert result.status == TaskResultStatus.SUCCESSFUL
    assert (result.return_value, result.is_finished, result.errors) == (42, True, [])
    assert result.attempts == 1
    assert result.enqueued_at <= result.started_at <= result.finished_at
    assert result.started_at == result.last_attempted_at


@pytest.mark.parametrize("function", [defined.fail, defined.fail_slowly], ids=["sync", "async"])
def test_a_task_that_raises_has_failed_and_has_the_error(function: Any, drain: Drain) -> None:
    result = function.enqueue()
    assert drain() == {"dead_lettered": 1}
    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    [error] = result.errors
    assert error.exception_class is ValueError
    assert "it is broken" in error.traceback
    assert "defined.py" in error.traceback
    assert result.is_finished
    assert result.finished_at >= result.last_attempted_at
    with pytest.raises(ValueError, match="failed"):
        result.return_value  # noqa: B018


def test_arguments_are_json(drain: Drain) -> None:
    given = [1.5, "é \U0001f600", None, True, {"nested": [{"a": [1]}]}]
    result = defined.nothing.enqueue(*given, empty={}, listed=(1, 2), raw=b"text")
    assert result.args == given
    assert result.kwargs == {"empty": {}, "listed": [1, 2], "raw": "text"}
    drain()
    assert defined.heard == [(tuple(given), {"empty": {}, "listed": [1, 2], "raw": "text"})]


@pytest.mark.parametrize(
    ("function", "using", "args"),
    [
        (defined.add, {}, [1]),
        (defined.add_slowly, {}, [1, 2]),
        (defined.nothing, {}, [{"nested": {1: "a", None: [1.0, -3, "ü"]}}]),
        (defined.send, {}, [7]),
        (defined.ship, {}, ["acme", 7]),
        (defined.ship, {"channel": "bolt", "dedupe_key": "once", "max_attempts": 3}, ["acme", 7]),
        (defined.ship, {"channel": "acme", "dedupe_key": "order-7", "max_attempts": 9}, ["acme", 7]),
        (defined.add, {"channel": "default", "max_attempts": 5, "priority": 7}, [1]),
        (defined.add, {"run_after": timezone.now() + timedelta(days=1), "queue_name": "mail"}, [1]),
        (defined.add, {"backoff": timedelta(seconds=3), "headers": {"tenant": 1}}, [1]),
        (defined.add, {"backend": "other"}, [1]),
    ],
)
def test_a_fetched_result_equals_the_enqueued_one(function: Any, using: dict[str, Any], args: list[Any]) -> None:
    for channel, queue in (("acme", "default"), ("bolt", "default"), ("tenant", "default"), ("default", "mail")):
        channel_set(channel=channel, queue=queue)
    given = function.using(**using)
    for result in (given.enqueue(*args), enqueue_many([Call(given.using(dedupe_key="another"), args)])[0]):
        fetched = task_backends[result.backend].get_result(result.id)
        assert fetched == result
        assert fetched.task == result.task


def test_the_arguments_decide_as_they_were_even_if_the_payload_was_edited() -> None:
    """The channel of `ship` is a function of two arguments."""
    channel_set(channel="acme")
    result = defined.ship.enqueue("acme", 7)
    Message.objects.update(payload={"args": []})
    found = task_backends["default"].get_result(result.id)
    assert (found.args, found.task.channel, found.task.dedupe_key) == ([], "acme", "order-7")


def test_synchronous_calls_in_async_code_name_the_call_to_await() -> None:
    async def ask(call: Callable[[], Any]) -> None:
        call()

    backend = task_backends["default"]
    result = defined.add.enqueue(1)
    for call, instead in (
        (lambda: defined.add.enqueue(1), "Await aenqueue"),
        (lambda: backend.enqueue_many([Call(defined.add, [1])]), "Await aenqueue_many"),
        (lambda: backend.get_result(result.id), "Await aget_result"),
        (result.refresh, "arefresh"),
    ):
        with pytest.raises(SynchronousOnlyOperation, match=instead):
            async_to_sync(ask)(call)


def test_a_traceback_has_the_lines_of_the_source(drain: Drain) -> None:
    result = defined.fail.enqueue()
    drain()
    result.refresh()
    text = result.errors[0].traceback
    assert text.startswith("Traceback (most recent call last):\n")
    assert "    raise ValueError(message)\n" in text
    assert text.endswith("ValueError: it is broken\n")
    assert "django_pgqueue" not in text, "the frames of the queue are left out"


def test_a_larger_priority_comes_first(drain: Drain) -> None:
    for priority in (0, -100, 100, 1):
        defined.nothing.using(priority=priority).enqueue(priority)
    drain(concurrency=1, batch=1)
    assert [args[0] for args, _ in defined.heard] == [100, 1, 0, -100]


def test_a_task_for_later_waits(drain: Drain) -> None:
    when = timezone.now() + timedelta(hours=1)
    result = defined.nothing.using(run_after=when).enqueue()
    assert result.task.run_after == when
    assert drain() == {}
    result.refresh()
    assert result.status == TaskResultStatus.READY
    assert task_backends["default"].get_result(result.id).task.run_after == when


def test_a_queue_is_served_by_its_workers(drain: Drain) -> None:
    from django_pgqueue import channel_set

    channel_set(channel="default", queue="mail")
    result = defined.send.enqueue(7)
    assert drain() == {}
    assert drain(queues=("mail",)) == {"completed": 1}
    found = task_backends["default"].get_result(result.id)
    assert (found.task.queue_name, found.task.priority) == ("mail", 7)


@cases("unknown", ["", "7", "-1", "12345678901234567890", "9" * 19, "abc", "1; SELECT", "١"])
def test_a_result_that_is_unknown_does_not_exist(unknown: str) -> None:
    for get in (task_backends["default"].get_result, defined.add.get_result):
        with pytest.raises(TaskResultDoesNotExist):
            get(unknown)
    with pytest.raises(TaskResultDoesNotExist):
        async_to_sync(task_backends["default"].aget_result)(unknown)


def test_the_result_of_another_task_is_a_mismatch() -> None:
    result = defined.add.enqueue(1)
    assert defined.add.get_result(result.id).id == result.id
    with pytest.raises(TaskResultMismatch):
        defined.nothing.get_result(result.id)


def test_a_task_of_one_backend_is_enqueued_with_another() -> None:
    from django_pgqueue import channel_set

    channel_set(channel="tenant")
    result = defined.add.using(backend="other").enqueue(1)
    assert result.backend == "other"
    found = task_backends["default"].get_result(result.id)
    assert (found.backend, found.task.backend) == ("other", "other")
    with override_settings(TASKS={"default": {"BACKEND": "django_pgqueue.tasks.PgQueueBackend", "QUEUES": ["new"]}}):
        found = task_backends["default"].get_result(result.id)
        assert (found.backend, found.task.queue_name) == ("default", "default"), "settings change, results stay"
