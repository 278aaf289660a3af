"""Our additions to the framework: channels, dedupe keys, retries, limits, bulk."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from django.test import override_settings

from django_pgqueue import Constant, channel_set, complete, dequeue, handlers
from django_pgqueue.exceptions import ChannelFull, ChannelNotFound
from django_pgqueue.models import Channel, Message
from django_pgqueue.tasks import Call, Options, PgQueueTask, aenqueue_many, enqueue_many, options, options_of, task
from django_pgqueue.tasks.compat import InvalidTask, TaskResultDoesNotExist, TaskResultStatus, task_backends
from tests.support.cases import cases
from tests.tasks import defined
from tests.tasks.settings import TASKS

pytestmark = pytest.mark.usefixtures("queue")
Drain = Callable[..., dict[str, int]]


def message(result: Any) -> Message:
    return Message.objects.select_related("channel").get(pk=result.id)


def with_options(**given: Any) -> Any:
    """The backend has other OPTIONS."""
    changed = {**TASKS["default"], "OPTIONS": {**TASKS["default"]["OPTIONS"], **given}}
    return override_settings(TASKS={**TASKS, "default": changed})


def test_a_call_says_its_channel_key_policy_and_headers() -> None:
    channel_set(channel="acme")
    policy = {"max_attempts": 7, "backoff": Constant(timedelta(seconds=9)), "headers": {"tenant": 3}}
    task = defined.add.using(channel="acme", dedupe_key="one", **policy)
    assert isinstance(task, PgQueueTask)
    found = message(task.enqueue(1))
    assert (found.channel.name, found.dedupe_key, found.headers) == ("acme", "one", {"tenant": 3})
    assert (found.max_attempts, found.backoff, found.backoff_factor) == (7, timedelta(seconds=9), 1.0)
    assert defined.add.channel is None, "the task itself stays as it is"
    result = task_backends["default"].get_result(str(found.id))
    assert (result.task.channel, result.task.dedupe_key, result.task.max_attempts) == ("acme", "one", 7)
    assert hash(task.using(priority=1)) != hash(task)


def test_calls_with_one_order_key_run_one_after_the_other() -> None:
    task = defined.add.using(order_key="invoice-7")
    first, second = (message(task.enqueue(number)) for number in (1, 2))
    assert (first.order_key, second.order_key) == ("invoice-7", "invoice-7")
    assert task_backends["default"].get_result(str(first.pk)).task.order_key == "invoice-7"
    [held] = dequeue(limit=10)
    assert held.id == first.pk
    complete(held)
    assert [delivery.id for delivery in dequeue(limit=10)] == [second.pk]


def test_a_definition_says_them_for_all_of_its_calls() -> None:
    channel_set(channel="acme")
    found = message(defined.ship.enqueue("acme", order=7))
    assert (found.channel.name, found.dedupe_key, found.max_attempts) == ("acme", "order-7", 9)
    assert found.backoff == timedelta(seconds=3)


def test_a_call_wins_over_its_definition_and_that_over_the_backend_and_that_over_the_settings() -> None:
    channel_set(channel="acme")
    assert message(defined.add.enqueue(1)).max_attempts == 5
    with with_options(MAX_ATTEMPTS=2, BACKOFF=timedelta(seconds=4), CHANNEL="acme"):
        found = message(defined.add.enqueue(1))
        assert (found.max_attempts, found.backoff, found.channel.name) == (2, timedelta(seconds=4), "acme")
        found = message(defined.ship.enqueue("default", 1))
        assert (found.max_attempts, found.backoff, found.channel.name) == (9, timedelta(seconds=3), "default")
        task = defined.ship.using(max_attempts=1, backoff=timedelta(seconds=5), channel="acme", dedupe_key="mine")
        found = message(task.enqueue("default", 2))
        assert (found.max_attempts, found.backoff, found.channel.name) == (1, timedelta(seconds=5), "acme")
        assert found.dedupe_key == "mine"


def test_a_duplicate_is_the_result_of_the_task_that_is_there(drain: Drain, heard: list[Any]) -> None:
    task = defined.add.using(dedupe_key="one")
    first, second = task.enqueue(1), task.enqueue(5)
    assert first.id == second.id
    assert first.enqueued_at is not None
    assert second.enqueued_at is None
    assert [name for name, _, _ in heard] == ["enqueued"]
    drain()
    second.refresh()
    assert (second.return_value, second.enqueued_at) == (2, task_backends["default"].get_result(first.id).enqueued_at)
    assert task.enqueue(5).id != first.id, "a key counts while its task is live"


def test_a_full_channel_refuses_or_drops(heard: list[Any]) -> None:
    channel_set(channel="small", max_size=1)
    task = defined.add.using(channel="small")
    task.enqueue(1)
    with pytest.raises(ChannelFull), transaction.atomic():
        task.enqueue(2)
    channel_set(channel="small", full_policy=Channel.FullPolicy.DROP)
    dropped = task.enqueue(3)
    assert (dropped.status, dropped.is_finished) == (TaskResultStatus.FAILED, True)
    assert dropped.errors[0].exception_class is ChannelFull
    with pytest.raises(TaskResultDoesNotExist):
        dropped.refresh()
    assert [name for name, _, _ in heard] == ["enqueued"]
    assert Message.objects.count() == 1


def test_a_refused_call_can_be_a_result_that_has_failed(heard: list[Any]) -> None:
    channel_set(channel="small", max_size=1)
    small, missing = defined.add.using(channel="small"), defined.add.using(channel="missing")
    with with_options(ON_REFUSED="return"):
        sent = small.enqueue(1)
        full, gone, fine = enqueue_many([Call(small, [2]), Call(missing, [3]), Call(defined.add, [4])])
    assert [result.status for result in (sent, full, gone, fine)] == [
        TaskResultStatus.READY, TaskResultStatus.FAILED, TaskResultStatus.FAILED, TaskResultStatus.READY,
    ]  # fmt: skip
    assert (full.errors[0].exception_class, gone.errors[0].exception_class) == (ChannelFull, ChannelNotFound)
    assert "holds 1 of 1 messages" in full.errors[0].traceback
    assert Message.objects.count() == len(heard) == 2


def test_many_calls_are_one_statement(django_assert_num_queries: Any, heard: list[Any], drain: Drain) -> None:
    channel_set(channel="acme")
    calls = [
        Call(defined.add, (1,)),
        Call(defined.add.using(channel="acme", priority=3), (1,), {"right": 2}),
        Call(defined.nothing),
    ]
    with django_assert_num_queries(1):
        results = enqueue_many(calls)
    assert [name for name, _, _ in heard] == ["enqueued"] * 3
    assert [result.task for result in results] == [call.task for call in calls]
    assert drain() == {"completed": 3}
    for result in results:
        result.refresh()
    assert [result.return_value for result in results] == [2, 3, None]


def test_many_calls_are_enqueued_all_or_none() -> None:
    with pytest.raises(ChannelNotFound), transaction.atomic():
        enqueue_many([Call(defined.add, (1,)), Call(defined.add.using(channel="nobody"), (1,))])
    with pytest.raises(TypeError):
        enqueue_many([Call(defined.add, (1,)), Call(defined.add, (object(),))])
    assert not Message.objects.exists()
    assert enqueue_many([]) == []


def test_async_code_enqueues_many() -> None:
    [result] = async_to_sync(aenqueue_many)([Call(defined.add, (1,))])
    assert message(result).handler == "tests.tasks.defined.add"
    [result] = async_to_sync(task_backends["default"].aenqueue_many)([Call(defined.add, (1,))])
    assert message(result).handler == "tests.tasks.defined.add"


def test_many_calls_go_one_by_one_to_another_backend() -> None:
    dummy = defined.add.using(backend="dummy")
    assert [result.kwargs for result in enqueue_many([Call(dummy, (1,)), Call(dummy, (), {"left": 2})])] == [
        {},
        {"left": 2},
    ]
    with pytest.raises(InvalidTask, match="one backend"):
        enqueue_many([Call(dummy, (1,)), Call(defined.add, (1,))])


def test_the_policy_of_a_task_is_that_of_its_handler() -> None:
    found = handlers.get("tests.tasks.defined.write")
    assert (found.atomic, found.max_attempts, found.asynchronous) == (True, 1, False)
    assert handlers.get("tests.tasks.defined.sleep").timeout == timedelta(seconds=0.2)
    assert handlers.get("tests.tasks.defined.add_slowly").asynchronous
    assert handlers.get("tests.tasks.defined.send").queue == "mail"
    assert options_of(defined.write).atomic
    assert options_of(defined.add) == options_of(defined.plain) == Options()


def test_a_back_off_function_is_asked_by_the_worker() -> None:
    def pauses(attempt: int, error: BaseException) -> timedelta:
        return timedelta(minutes=attempt)

    try:
        options(backoff=pauses)(defined.nothing)
        from django_pgqueue.tasks import register

        register(defined.nothing)
        assert handlers.get("tests.tasks.defined.nothing").backoff_function is pauses
        with with_options(BACKOFF=timedelta(seconds=4)):
            assert message(defined.nothing.enqueue()).backoff is None
    finally:
        del defined.nothing.func.pgqueue_options


@cases(
    "given",
    [
        {"channel": ""},
        {"channel": 7},
        {"dedupe_key": "x" * 201},
        {"max_attempts": 0},
        {"max_attempts": "3"},
        {"backoff": "soon"},
        {"backoff": 5},
        {"timeout": 5},
        {"timeout": timedelta(0)},
        {"concurrency": 0},
    ],
)
def test_options_that_make_no_sense_are_refused_where_they_are_written(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        options(**given)(defined.plain)
    assert options_of(defined.plain) == Options()


@cases("name", ["channel", "dedupe_key", "max_attempts", "backoff", "atomic", "timeout"])
def test_the_decorator_refuses_the_options_of_the_queue_on_every_django(name: str) -> None:
    with pytest.raises(TypeError, match=rf"@task takes no {name}: write @options\({name}=…\)"):
        task(**{name: 3})(defined.plain)


@cases(
    "given",
    [
        {"channel": ""},
        {"dedupe_key": 7},
        {"max_attempts": 0},
        {"backoff": lambda attempt, error: None},
        {"headers": ["tenant"]},
    ],
)
def test_a_call_that_makes_no_sense_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask):
        defined.add.using(**given)
