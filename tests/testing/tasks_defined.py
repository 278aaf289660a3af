"""Tasks for test_backends.py, which has the setting TASKS that they need."""

from __future__ import annotations

from typing import Any

from django_pgqueue.outcomes import Complete, Defer, Reject
from django_pgqueue.tasks import options
from django_pgqueue.tasks.compat import task

called: list[Any] = []


@task
def add(left: int, right: int) -> int:
    called.append((left, right))
    return left + right


@task
async def add_slowly(left: int, right: int) -> int:
    return left + right


@options(channel=lambda tenant: tenant, dedupe_key="once", max_attempts=7)
@task(priority=3, queue_name="mail")
def ship(tenant: str) -> None:
    called.append(tenant)


@task
def answer(kind: str) -> Any:
    if kind == "complete":
        return Complete(result="done")
    if kind == "defer":
        return Defer()
    raise {"raised": Complete(result="done"), "dead": Reject("unwanted")}.get(kind, KeyError(kind))


@task(takes_context=True)
async def seen(context: Any) -> str:
    return context.task_result.task.module_path
