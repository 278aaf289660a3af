"""Tasks that django-tasks-db itself has enqueued become messages that the backend for django.tasks runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from django.conf import settings
from django.contrib.admin import site
from django.core.management import call_command
from django.test import override_settings

from django_pgqueue import channel_set, dequeue, handlers
from django_pgqueue.models import Message

PATH = "tests.importing.tasks_project.remind"
LATER = datetime(2040, 1, 1, 7, tzinfo=UTC)

pytestmark = pytest.mark.django_db


@pytest.fixture
def remind(db: None) -> Iterator[Any]:
    """The task, in a project with its tables and a handler that is called as the task is."""
    channel_set(channel="default")
    handlers.handler(PATH)(lambda delivery: None)
    known = set(site._registry)
    with override_settings(
        INSTALLED_APPS=[*settings.INSTALLED_APPS, "django_tasks_db"],
        TASKS={"default": {"BACKEND": "django_tasks_db.DatabaseBackend", "QUEUES": []}},
    ):
        call_command("migrate", "django_tasks_database", verbosity=0)
        from tests.importing.tasks_project import remind

        yield remind
    # An app that comes takes its place in the admin, and does not leave it.
    site.unregister(set(site._registry) - known)
    handlers.unregister(PATH)


def rows() -> list[tuple[str, str]]:
    from django_tasks_db.models import DBTaskResult

    return list(DBTaskResult.objects.values_list("args_kwargs__args__0", "status"))


def test_a_task_keeps_what_it_is_about(remind: Any, import_jobs: Callable[..., str]) -> None:
    result = remind.using(priority=5, queue_name="mail", run_after=LATER).enqueue(7, text="soon")

    assert "1 moved, 0 duplicates, 0 stay" in import_jobs("django-tasks-db")

    message = Message.objects.select_related("channel").get()
    assert (message.handler, message.payload) == (PATH, {"args": [7], "kwargs": {"text": "soon"}})
    assert (message.channel.queue, message.priority, message.dequeue_at) == ("mail", 5, LATER)
    assert message.headers["django_tasks_db_result"] == result.id
    assert rows() == []


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "America/Los_Angeles"])
def test_a_task_without_a_time_is_ready(remind: Any, import_jobs: Callable[..., str], zone: str) -> None:
    with override_settings(TIME_ZONE=zone, USE_TZ=False):
        remind.enqueue(1)
        remind.enqueue(2)

    import_jobs("django-tasks-db")

    assert [delivery.payload["args"] for delivery in dequeue(limit=10)] == [[1], [2]]


def test_a_second_import_moves_nothing(remind: Any, import_jobs: Callable[..., str]) -> None:
    remind.enqueue(1)

    import_jobs("django-tasks-db")

    assert "0 moved" in import_jobs("django-tasks-db", "--stuck")


def test_tasks_that_are_done_stay_and_those_of_a_dead_worker_move_with_the_option_stuck(
    remind: Any, import_jobs: Callable[..., str]
) -> None:
    from django_tasks_db.models import DBTaskResult

    for order, status in enumerate(("RUNNING", "SUCCESSFUL", "FAILED")):
        DBTaskResult.objects.filter(id=remind.enqueue(order).id).update(status=status)

    assert "0 moved" in import_jobs("django-tasks-db")
    assert "1 moved" in import_jobs("django-tasks-db", "--stuck")

    assert sorted(rows()) == [(1, "SUCCESSFUL"), (2, "FAILED")]
