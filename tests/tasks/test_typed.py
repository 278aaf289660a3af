"""Tasks whose arguments have the types of their annotations: @options(typed=True)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import Group

from django_pgqueue.models import DeadLetter, Message
from django_pgqueue.tasks import Call, enqueue_many, options, register
from django_pgqueue.tasks.compat import TaskResultStatus, task
from tests.tasks import defined

pytestmark = pytest.mark.usefixtures("queue")
Drain = Callable[..., dict[str, int]]
AT = datetime(2026, 3, 29, 2, 30, 0, 1, tzinfo=UTC)


def test_the_arguments_arrive_as_they_were_given(drain: Drain) -> None:
    group = Group.objects.create(name="staff")
    wait, fee = timedelta(days=1, microseconds=1), Decimal("1.10")
    result = defined.remind.enqueue(group, AT, fee, wait=wait, note={"n": [1]})
    assert drain() == {"completed": 1}
    assert defined.heard == [(group, AT, (fee,), wait, {"n": [1]})]
    enqueued_with = result.args, result.kwargs
    result.refresh()
    assert result.return_value == "staff"
    assert (result.args, result.kwargs) == enqueued_with
    assert result.args[1:] == ["2026-03-29T02:30:00.000001Z", "1.10"]


def test_an_async_task_gets_them_too(drain: Drain) -> None:
    group = Group.objects.create(name="staff")
    enqueue_many([Call(defined.remind_slowly, (group,), {"first": date(2026, 1, 1)})])
    assert drain() == {"completed": 1}
    assert defined.heard == [(group, {"first": date(2026, 1, 1)})]


@pytest.mark.parametrize("function", [defined.remind, defined.remind_slowly], ids=["sync", "async"])
def test_a_row_that_is_gone_is_a_dead_letter_without_further_attempts(function: Any, drain: Drain) -> None:
    group = Group.objects.create(name="staff")
    result = function.enqueue(group, AT) if function is defined.remind else function.enqueue(group)
    Group.objects.all().delete()
    assert drain() == {"dead_lettered": 1}
    letter = DeadLetter.objects.get()
    assert (letter.reason, letter.attempts) == ("gone", 1)
    assert letter.details == {"problem": "group: the auth.Group is not in the database 'default'"}
    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    assert defined.heard == []


def test_an_argument_that_does_not_fit_is_refused_when_it_is_enqueued() -> None:
    group = Group.objects.create(name="staff")
    with pytest.raises(
        ValueError, match=r"argument at of tests\.tasks\.defined\.remind: at is not a moment in ISO 8601"
    ):
        defined.remind.enqueue(group, "tomorrow")
    with pytest.raises(ValueError, match=r"argument 3 of .*: 3 is not a decimal number in a text"):
        defined.remind.enqueue(group, AT, 1.1)
    with pytest.raises(TypeError, match=r"argument note of .* is not JSON: .*annotate the parameter"):
        defined.remind.enqueue(group, AT, note=AT)
    with pytest.raises(ValueError, match=r"argument group of .*this auth.Group is not saved"):
        defined.remind.enqueue(Group(name="new"), AT)
    assert not Message.objects.exists()


def test_a_task_that_is_not_typed_says_which_argument_is_not_json() -> None:
    with pytest.raises(TypeError, match=r"argument right of tests\.tasks\.defined\.add is not JSON: .*typed=True"):
        defined.add.enqueue(1, right=AT)


def test_an_edited_payload_that_does_not_fit_is_a_dead_letter(drain: Drain) -> None:
    defined.remind.enqueue(Group.objects.create(name="staff"), AT)
    Message.objects.update(payload={"args": [{"model": "auth.user", "pk": 1, "using": "default"}, "x"], "kwargs": {}})
    assert drain() == {"dead_lettered": 1}
    letter = DeadLetter.objects.get()
    assert letter.reason == "invalid_arguments"
    assert letter.details["problem"].startswith("group is a reference to a auth.User,")


@options(typed=True)
def bad(names: set[str]) -> None: ...


def test_a_type_that_json_cannot_become_is_refused_when_the_task_is_registered() -> None:
    with pytest.raises(ValueError, match="its parameter names cannot be made from JSON"):
        register(task(bad))
