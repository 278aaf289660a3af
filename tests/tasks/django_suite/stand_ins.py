"""The backend of this project under the names of Django's two backends, so that Django's tests run as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import connection
from django.tasks.backends import dummy, immediate
from django.tasks.base import Task, TaskResult

from django_pgqueue.tasks import PgQueueBackend


class DummyBackend(PgQueueBackend):
    """No worker runs. ``results`` and ``clear`` are the dummy's; here they read and empty the tables."""

    @property
    def results(self) -> list[TaskResult]:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._read()
        # Async tests read it, too: in a thread with a connection of its own.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(self._read_and_close).result()

    def _read_and_close(self) -> list[TaskResult]:
        try:
            return self._read()
        finally:
            connection.close()

    def _read(self) -> list[TaskResult]:
        from django_pgqueue.models import Message

        return [self.get_result(str(number)) for number in Message.objects.order_by("id").values_list("pk", flat=True)]

    def clear(self) -> None:
        empty()


class ImmediateBackend(PgQueueBackend):
    """A worker runs each task before ``enqueue`` returns."""

    def enqueue(self, task: Task, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult:
        from django_pgqueue.testing import drain

        result = super().enqueue(task, args, kwargs)
        drain(raise_errors=False)
        result.refresh()
        return result


def empty() -> None:
    from django_pgqueue.models import Message

    Message.objects.all().delete()


def take_their_places() -> None:
    dummy.DummyBackend = DummyBackend
    immediate.ImmediateBackend = ImmediateBackend
