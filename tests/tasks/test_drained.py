"""Tasks in the tests of a project: drained like every message, in the transaction of the test."""

from __future__ import annotations

from typing import Any

import pytest

from django_pgqueue import channel_set
from django_pgqueue.tasks import Call, enqueue_many
from django_pgqueue.testing import assert_enqueued, drain
from tests.tasks import defined

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _channel() -> None:
    channel_set(channel="default")


def test_a_drained_task_has_a_result_and_sends_its_signals(heard: list[Any]) -> None:
    result, slow = enqueue_many([Call(defined.add, (1,)), Call(defined.add_slowly, (2,))])
    assert_enqueued("tests.tasks.defined.add", payload={"args": [1], "kwargs": {}})
    drain()
    result.refresh()
    slow.refresh()
    assert (result.return_value, slow.return_value) == (2, 3)
    assert sorted(name for name, _, _ in heard) == ["enqueued"] * 2 + ["finished"] * 2 + ["started"] * 2


def test_the_exception_of_a_drained_task_reaches_the_test() -> None:
    result = defined.fail.enqueue()
    with pytest.raises(ValueError, match="it is broken"):
        drain()
    result.refresh()
    assert result.status == "FAILED"
