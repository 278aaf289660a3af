"""Tasks with a PAYLOAD_CODEC: arguments and results are stored encoded, and results are read as they were."""

from __future__ import annotations

from typing import Any

import pytest

from django_pgqueue.models import ArchivedMessage, DeadLetter, Message
from django_pgqueue.tasks.compat import TaskResultDoesNotExist, TaskResultStatus, task_backends
from django_pgqueue.testing import drain
from tests.support.codecs import SECRET, Toy
from tests.tasks import defined

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _codec(settings: Any) -> None:
    settings.DJANGO_PGQUEUE = {"PAYLOAD_CODEC": Toy(), "AUTO_CREATE_CHANNELS": True}


def test_arguments_and_results_are_encoded_and_read_back(settings: Any) -> None:
    result = defined.add.enqueue(SECRET, "!")
    assert SECRET not in str(Message.objects.get().payload)
    waiting = task_backends["default"].get_result(result.id)
    assert (waiting.status, waiting.args) == (TaskResultStatus.READY, [SECRET, "!"])
    drain()
    [row] = ArchivedMessage.objects.all()
    assert SECRET not in f"{row.payload}{row.result}"
    done = task_backends["default"].get_result(result.id)
    assert (done.status, done.return_value, done.args) == (
        TaskResultStatus.SUCCESSFUL, f"{SECRET}!", [SECRET, "!"],
    )  # fmt: skip
    settings.DJANGO_PGQUEUE = {}
    with pytest.raises(TaskResultDoesNotExist, match="it is encoded"):
        task_backends["default"].get_result(result.id)


def test_the_errors_of_attempts_are_encoded_and_read_back() -> None:
    result = defined.fail.enqueue(SECRET)
    drain(raise_errors=False)
    [row] = DeadLetter.objects.all()
    assert SECRET not in f"{row.payload}{row.errors}{row.details}"
    assert [error["message"] for error in row.errors] == ["encoded"]
    [error] = task_backends["default"].get_result(result.id).errors
    assert f"ValueError: {SECRET}" in error.traceback
