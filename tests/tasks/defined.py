"""The tasks of the tests: none of this is in a tasks.py, so OPTIONS["MODULES"] names it."""

from __future__ import annotations

import asyncio
import os
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.contrib.auth.models import Group
from django.db import connection

from django_pgqueue import Constant, Defer, Retry
from django_pgqueue.outcomes import Reject
from django_pgqueue.tasks import options
from django_pgqueue.tasks.compat import task

AT_ONCE = Constant(timedelta(0))
heard: list[Any] = []


@task
def add(left: int, right: int = 1) -> int:
    return left + right


@task
async def add_slowly(left: int, right: int = 1) -> int:
    await asyncio.sleep(0)
    return left + right


@task
def nothing(*args: Any, **kwargs: Any) -> None:
    heard.append((args, kwargs))


@options(max_attempts=1)
@task
def fail(message: str = "it is broken") -> None:
    raise ValueError(message)


@options(max_attempts=1)
@task
async def fail_slowly() -> None:
    raise ValueError("it is broken, slowly")


@options(max_attempts=3, backoff=AT_ONCE)
@task(takes_context=True)
def fail_until(context: Any, attempt: int) -> list[Any]:
    """Fails before this attempt."""
    heard.append((context.attempt, context.task_result.status, len(context.task_result.errors)))
    if context.attempt < attempt:
        raise KeyError(f"attempt {context.attempt}")
    return [context.attempt, context.task_result.id, len(context.task_result.worker_ids)]


@options(max_attempts=3, backoff=AT_ONCE)
@task(takes_context=True)
async def fail_slowly_until(context: Any, attempt: int) -> list[Any]:
    await asyncio.sleep(0)
    if context.attempt < attempt:
        raise KeyError(f"attempt {context.attempt}")
    return [context.attempt, len(context.task_result.worker_ids)]


@task(takes_context=True)
def look(context: Any) -> str:
    """Return the status in the database while the task runs."""
    context.task_result.refresh()
    return context.task_result.status


@task
def not_json() -> object:
    heard.append("not_json")
    return object()


@task
def not_a_number() -> float:
    return float("nan")


@task
def answer(outcome: str) -> Any:
    heard.append(outcome)
    match outcome:
        case "defer":
            return Defer(delay=timedelta(hours=1))
        case "retry":
            raise Retry(after=timedelta(hours=1), error="later")
        case "refuse":
            raise Reject("no_such_order", {"order": 7})
    return None


@options(archive="outcome")
@task
def shy(card: str) -> str:
    return card


@task(queue_name="mail", priority=7)
def send(user: int) -> None: ...


@options(
    channel=lambda tenant, order: tenant,
    dedupe_key=lambda tenant, order: f"order-{order}",
    max_attempts=9,
    backoff=timedelta(seconds=3),
)
@task
def ship(tenant: str, order: int) -> None: ...


@task
@options(atomic=True, max_attempts=1)
def write(name: str, fails: bool = False) -> str:
    Group.objects.create(name=name)
    if fails:
        raise RuntimeError("rolled back")
    return name


@options(timeout=timedelta(seconds=0.2), max_attempts=1)
@task
def sleep() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(30)")


@options(timeout=timedelta(seconds=0.2), max_attempts=1)
@task
async def sleep_async() -> None:
    await asyncio.sleep(30)


@options(typed=True)
@task
def remind(group: Group, at: datetime, *fees: Decimal, wait: timedelta = timedelta(0), note: Any = None) -> str:
    heard.append((group, at, fees, wait, note))
    return group.name


@options(typed=True)
@task(takes_context=True)
async def remind_slowly(context: Any, group: Group, **days: date) -> int:
    heard.append((group, days))
    return context.attempt


@task
def elsewhere() -> int:
    return os.getpid()


def plain() -> None:
    """No task."""


@options(limits=["gpt"], cost=lambda text: len(text))
@task
def summarize(text: str) -> str:
    return text[:3]


@options(cost=lambda text: -len(text))
@task
def priced_wrongly(text: str) -> None: ...
