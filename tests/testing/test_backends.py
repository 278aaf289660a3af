"""DummyBackend and ImmediateBackend: no test here has a database."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings
from django.utils import timezone

TASKS = {
    "default": {"BACKEND": "django_pgqueue.testing.DummyBackend", "QUEUES": ["default", "mail"]},
    "now": {
        "BACKEND": "django_pgqueue.testing.ImmediateBackend",
        "QUEUES": [],
        "OPTIONS": {"CHANNEL": "tenants", "MAX_ATTEMPTS": 2},
    },
}
with override_settings(TASKS=TASKS):
    from django_pgqueue.exceptions import InvalidMessage
    from django_pgqueue.tasks import Call, enqueue_many
    from django_pgqueue.tasks.compat import InvalidTask, TaskResultStatus, task_backends
    from tests.testing import tasks_defined as defined


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    with override_settings(TASKS=TASKS):
        defined.called.clear()
        yield


def messages(backend: str = "default") -> list[Any]:
    return task_backends[backend].messages


def now(task: Any) -> Any:
    return task.using(backend="now")


def test_the_dummy_records_the_message_and_runs_nothing():
    later = timezone.now() + timedelta(days=1)
    result = defined.ship.enqueue("acme")
    defined.add.using(channel="other", run_after=later, headers={"a": 1}, backoff=timedelta(1)).enqueue(1, right=2)

    assert result.status == TaskResultStatus.READY
    assert defined.called == []
    first, second = messages()
    assert (first.handler, first.queue, first.channel) == ("tests.testing.tasks_defined.ship", "mail", "acme")
    assert (first.dedupe_key, first.max_attempts, first.priority) == ("once", 7, 3)
    assert first.payload == {"args": ["acme"], "kwargs": {}}
    assert (second.channel, second.dequeue_at, second.headers, second.backoff) == (
        "other", later, {"a": 1}, timedelta(1),
    )  # fmt: skip
    assert len(task_backends["default"].results) == 2

    task_backends["default"].clear()
    assert (messages(), task_backends["default"].results) == ([], [])


@pytest.mark.parametrize("backend", ["default", "now"])
def test_the_other_backends_refuse_the_calls_that_the_queue_refuses(backend):
    add = defined.add.using(backend=backend)
    with pytest.raises(InvalidTask):
        add.using(max_attempts=0)
    with pytest.raises(InvalidMessage):
        add.using(headers={"a": object()}).enqueue(1, 2)
    with pytest.raises(TypeError):
        add.enqueue(object(), 2)

    assert messages(backend) == defined.called == []


def test_an_unknown_queue_is_refused():
    with pytest.raises(InvalidTask):
        defined.add.using(queue_name="elsewhere")


def test_the_immediate_one_runs_and_records():
    result = now(defined.add).enqueue(1, right=2)

    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, 3)
    assert result.task.func is defined.add.func
    assert now(defined.add_slowly).enqueue(1, 2).return_value == 3
    assert now(defined.seen).enqueue().return_value == "tests.testing.tasks_defined.seen"
    assert [(message.channel, message.max_attempts) for message in messages("now")] == [("tenants", 2)] * 3


def test_the_immediate_one_knows_our_outcomes():
    for kind in ("complete", "raised"):
        assert now(defined.answer).enqueue(kind).return_value == "done"
    for kind, name in (("dead", "Reject"), ("defer", "Defer"), ("other", "KeyError")):
        result = now(defined.answer).enqueue(kind)
        assert result.status == TaskResultStatus.FAILED
        assert result.errors[0].exception_class_path.endswith(name)


@pytest.mark.parametrize("backend", ["default", "now"])
def test_many_calls_are_recorded_one_by_one(backend):
    add = defined.add.using(backend=backend)

    results = enqueue_many([Call(add, (1, 2)), Call(add.using(channel="acme"), (3, 4))])

    assert [message.payload["args"] for message in messages(backend)] == [[1, 2], [3, 4]]
    assert messages(backend)[1].channel == "acme"
    assert len(results) == 2
