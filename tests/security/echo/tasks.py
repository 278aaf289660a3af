from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from django.dispatch import receiver

from django_pgqueue import Constant
from django_pgqueue.outcomes import Reject
from django_pgqueue.tasks import options, task
from django_pgqueue.tasks.compat import task_finished

AT_ONCE = Constant(timedelta(0))


@task
def add(left: int, right: int = 1) -> int:
    return left + right


@task
async def add_slowly(left: int) -> int:
    return left + 1


@options(atomic=True, max_attempts=2, backoff=AT_ONCE)
@task(takes_context=True)
def fail_once(context: Any) -> list[Any]:
    context.task_result.refresh()
    if context.attempt == 1:
        raise KeyError("the first attempt")
    return [context.attempt, context.task_result.status, len(context.task_result.errors)]


@options(max_attempts=2, backoff=AT_ONCE)
@task
def fail() -> None:
    raise ValueError("it is broken")


@task
def refuse() -> None:
    raise Reject("no_such_order")


@receiver(task_finished)
def report(sender: Any, task_result: Any, **kwargs: Any) -> None:
    name = task_result.task.module_path.rpartition(".")[2]
    logging.getLogger("django_pgqueue").info("heard: %s %s %d", name, task_result.status, len(task_result.errors))
