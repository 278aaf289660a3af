"""How a worker runs tasks: context, attempts, outcomes, limits, signals, logs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group

from django_pgqueue import cancel, channel_purge, dequeue, enqueue, queue_set, redrive, retry, sweep
from django_pgqueue.models import ArchivedMessage, DeadLetter
from django_pgqueue.tasks import PgQueueBackend
from django_pgqueue.tasks.compat import LOGGER, TaskResult, TaskResultDoesNotExist, TaskResultStatus, task_backends
from tests.tasks import defined

pytestmark = pytest.mark.usefixtures("queue")
Drain = Callable[..., dict[str, int]]
Heard = list[tuple[str, TaskResult, type]]


def refreshed(result: TaskResult) -> TaskResult:
    result.refresh()
    return result


def test_an_interruption_is_no_attempt(drain: Drain) -> None:
    result = defined.fail_until.enqueue(2)
    for _ in range(2):
        stopped = {"type": "WorkerStopped", "message": "SIGTERM"}
        retry(dequeue("default"), errors=[stopped], delays=[timedelta()], max_interruptions=20)
        sweep()
    assert drain(name="first") == {"retried": 1, "completed": 1}
    refreshed(result)
    assert result.return_value[0] == result.return_value[-1] == result.attempts == 2


@pytest.mark.parametrize(
    ("function", "value"), [(defined.fail_until, 3), (defined.fail_slowly_until, 2)], ids=["sync", "async"]
)
def test_the_context_knows_the_attempts_before(function: Any, value: int, drain: Drain) -> None:
    result = function.enqueue(3)
    assert drain(name="first") == {"retried": 2, "completed": 1}
    refreshed(result)
    assert result.status == TaskResultStatus.SUCCESSFUL
    assert result.return_value[0] == result.return_value[-1] == 3
    assert result.attempts == 3
    assert len(result.worker_ids) == 3
    assert len(set(result.worker_ids)) == 1
    assert [error.exception_class for error in result.errors] == [KeyError, KeyError]
    assert "attempt 2" in result.errors[1].traceback
    assert result.started_at < result.last_attempted_at <= result.finished_at


def test_between_two_attempts_it_is_ready_again(drain: Drain) -> None:
    result = defined.answer.enqueue("retry")
    assert drain() == {"retried": 1}
    refreshed(result)
    assert (result.status, result.attempts) == (TaskResultStatus.READY, 1)
    assert result.errors[0].exception_class_path == "django_pgqueue.outcomes.Retry"
    assert result.started_at is not None
    assert result.finished_at is None


def test_a_task_may_refuse_itself_for_good(drain: Drain) -> None:
    result = defined.answer.enqueue("refuse")
    assert drain() == {"dead_lettered": 1}
    [error] = refreshed(result).errors
    assert result.status == TaskResultStatus.FAILED
    assert error.exception_class_path == "django_pgqueue.outcomes.Reject"
    assert "no_such_order" in error.traceback
    assert result.attempts == 1


@pytest.mark.parametrize(("function", "kind"), [(defined.not_json, "TypeError"), (defined.not_a_number, "Invalid")])
def test_a_return_value_that_is_not_json_fails_once_and_is_not_repeated(function: Any, kind: str, drain: Drain) -> None:
    result = function.enqueue()
    assert drain() == {"dead_lettered": 1}
    [error] = refreshed(result).errors
    assert result.status == TaskResultStatus.FAILED
    assert kind in error.exception_class.__name__


def test_the_rows_of_an_atomic_task_are_there_if_and_only_if_it_succeeds(drain: Drain) -> None:
    good, bad = defined.write.enqueue("kept"), defined.write.enqueue("gone", fails=True)
    assert drain() == {"completed": 1, "dead_lettered": 1}
    assert refreshed(good).return_value == "kept"
    assert refreshed(bad).errors[0].exception_class is RuntimeError
    assert list(Group.objects.values_list("name", flat=True)) == ["kept"]


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("function", [defined.sleep, defined.sleep_async], ids=["sync", "async"])
def test_a_task_is_ended_at_its_timeout(function: Any, drain: Drain, heard: Heard) -> None:
    result = function.enqueue()
    assert drain() == {"dead_lettered": 1}
    assert refreshed(result).errors[0].exception_class_path == "django_pgqueue.exceptions.HandlerTimeout"
    assert [(name, seen.status) for name, seen, _ in heard][-1] == ("finished", TaskResultStatus.FAILED)


def test_the_signals_come_in_order_with_the_class_of_the_backend(drain: Drain, heard: Heard) -> None:
    result = defined.add.enqueue(1)
    drain()
    assert [name for name, _, _ in heard] == ["enqueued", "started", "finished"]
    assert {sender for _, _, sender in heard} == {PgQueueBackend}
    assert {seen.id for _, seen, _ in heard} == {result.id}
    assert [seen.status for _, seen, _ in heard] == ["READY", "RUNNING", "SUCCESSFUL"]
    assert [seen.attempts for _, seen, _ in heard] == [0, 1, 1]
    assert heard[-1][1].return_value == 2
    assert heard[-1][1].is_finished


def test_finished_is_signalled_after_it_was_written(drain: Drain, heard: Heard) -> None:
    from django_pgqueue.tasks.compat import task_finished

    written: list[str] = []

    def look(task_result: TaskResult, **kwargs: Any) -> None:
        written.append(task_backends["default"].get_result(task_result.id).status)

    task_finished.connect(look)
    try:
        defined.add.enqueue(1)
        defined.fail.enqueue()
        drain()
    finally:
        task_finished.disconnect(look)
    assert sorted(written) == ["FAILED", "SUCCESSFUL"]


def test_the_log_of_the_framework_tells_a_failure_without_secrets(
    drain: Drain, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, LOGGER)
    result = defined.fail.enqueue("password=hunter2")
    drain()
    [record] = [record for record in caplog.records if record.name == LOGGER and record.levelno == logging.ERROR]
    assert result.id in record.getMessage()
    assert "ValueError" in record.exc_text
    assert "hunter2" not in caplog.text
    assert "hunter2" not in refreshed(result).errors[0].traceback


def test_a_message_of_sql_without_arguments_is_a_call_without_arguments(drain: Drain) -> None:
    enqueue("tests.tasks.defined.nothing")
    enqueue("tests.tasks.defined.nothing", {"args": [1], "unknown": 2})
    assert drain() == {"completed": 2}
    assert sorted(defined.heard) == [((), {}), ((1,), {})]


@pytest.mark.parametrize("payload", [[1], "text", {"args": {}}, {"kwargs": []}], ids=repr)
def test_a_message_with_a_senseless_payload_is_refused_at_once(payload: Any, drain: Drain) -> None:
    message = enqueue("tests.tasks.defined.nothing", payload)
    assert drain() == {"dead_lettered": 1}
    assert DeadLetter.objects.get().reason == "invalid_arguments"
    assert task_backends["default"].get_result(str(message.id)).status == TaskResultStatus.FAILED


def test_a_backend_in_a_payload_is_one_of_ours_or_none(drain: Drain) -> None:
    for backend in ("dummy", "unknown", ["default"], "django.core.mail"):
        message = enqueue("tests.tasks.defined.nothing", {"backend": backend})
        assert task_backends["default"].get_result(str(message.id)).backend == "default"
    assert drain() == {"completed": 4}


def test_a_cancelled_task_has_failed_and_says_so() -> None:
    result = defined.add.enqueue(1)
    cancel(int(result.id), reason="it is not wanted any more")
    [error] = refreshed(result).errors
    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 0)
    assert error.exception_class_path == "django_pgqueue.outcomes.Cancelled"
    purged = defined.add.enqueue(1)
    channel_purge(channel="default")
    assert "purged" in refreshed(purged).errors[0].traceback


def test_the_result_of_a_redriven_task_is_that_of_its_new_life(drain: Drain) -> None:
    result = defined.fail_until.enqueue(4)
    assert drain() == {"retried": 2, "dead_lettered": 1}
    assert refreshed(result).status == TaskResultStatus.FAILED
    redrive([int(result.id)], payload={"args": [1], "kwargs": {}})
    assert refreshed(result).status == TaskResultStatus.READY
    assert result.attempts == 3
    assert drain() == {"completed": 1}
    refreshed(result)
    assert result.status == TaskResultStatus.SUCCESSFUL
    assert (result.attempts, len(result.errors)) == (4, 3)
    assert ArchivedMessage.objects.get().redriven_from == int(result.id)


@pytest.mark.parametrize("archive", ["outcome", "none"])
def test_a_result_that_was_not_archived_does_not_exist_when_the_task_has_ended(
    drain: Drain, heard: list[Any], archive: str
) -> None:
    queue_set(archive=archive)
    result, tried = defined.add.enqueue(1), defined.fail_until.enqueue(1)
    assert refreshed(result).status == TaskResultStatus.READY
    drain()
    for ended in (result, tried):
        with pytest.raises(
            TaskResultDoesNotExist,
            match="no more than that" if archive == "outcome" else f"{ended.id}: .*archive = none",
        ):
            ended.refresh()
    results = {task_result.id: task_result for name, task_result, _ in heard if name == "finished"}
    assert results[result.id].return_value == 2, "a receiver of the signal has it at once"


def test_a_task_says_what_is_archived_of_it(drain: Drain) -> None:
    shy, open_ = defined.shy.enqueue("4111"), defined.add.enqueue(1)
    drain()
    assert ArchivedMessage.objects.get(pk=int(shy.id)).payload is None
    assert refreshed(open_).return_value == 2
