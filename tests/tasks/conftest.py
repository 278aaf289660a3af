"""The backend as TASKS names it, the tasks of these tests, and workers that run them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import override_settings

from tests.tasks.settings import TASKS

with override_settings(TASKS=TASKS):
    from django_pgqueue import handlers
    from django_pgqueue.tasks import discovery, finished, registry
    from django_pgqueue.tasks.compat import task_enqueued, task_finished, task_started
    from tests.tasks import defined

from tests.worker.conftest import drain, queue, start  # noqa: F401  (fixtures)

SIGNALS = {"enqueued": task_enqueued, "started": task_started, "finished": task_finished}


@pytest.fixture(autouse=True)
def _tasks() -> Iterator[None]:
    """Set up as a process does when it starts, and undo it again."""
    before = dict(handlers._registry)
    with override_settings(TASKS=TASKS):
        discovery.set_up_tasks()
        defined.heard.clear()
        yield
    for signal in finished.EVENTS:
        signal.disconnect(dispatch_uid="django_pgqueue.tasks")
    registry._known.clear()
    handlers._registry.clear()
    handlers._registry.update(before)
    handlers.broken.clear()


@pytest.fixture
def heard() -> Iterator[list[tuple[str, Any, type]]]:
    """The signals of the framework: name, result as it was then, sender."""
    found: list[tuple[str, Any, type]] = []

    def hear(name: str) -> Callable[..., None]:
        return lambda sender, task_result, **kwargs: found.append((name, task_result, sender))

    receivers = {name: hear(name) for name in SIGNALS}
    for name, receiver in receivers.items():
        SIGNALS[name].connect(receiver)
    yield found
    for name, receiver in receivers.items():
        SIGNALS[name].disconnect(receiver)
