"""HANDLER_MIDDLEWARE around the calls of handlers: sync, async, batches, atomic ones."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings

from django_pgqueue import Complete, Delivery, enqueue, handlers
from django_pgqueue.exceptions import HandlerError
from django_pgqueue.worker.executor import execute, execute_batch
from django_pgqueue.worker.middleware import Middleware, surround, surround_async
from tests.worker.conftest import marks as marks_of
from tests.worker.conftest import script, sql, where
from tests.worker.test_executor import DELIVERY

seen: list[str] = []
tenant: ContextVar[str | None] = ContextVar("tenant", default=None)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    seen.clear()
    yield
    handlers.unregister("h")


def outer(delivery: Delivery) -> Iterator[None]:
    seen.append(f"outer in {delivery.id}")
    try:
        yield
    finally:
        seen.append("outer out")


@contextmanager
def inner(delivery: Delivery) -> Iterator[None]:
    seen.append("inner in")
    yield
    seen.append("inner out")


async def waiting(delivery: Delivery) -> AsyncIterator[None]:
    await asyncio.sleep(0)
    seen.append("waiting in")
    yield
    await asyncio.sleep(0)
    seen.append("waiting out")


def restores_tenant(delivery: Delivery) -> Iterator[None]:
    tenant.set(delivery.context.get("tenant"))
    yield


def around(*given: Any, **policy: Any) -> Callable[[Callable[..., Any]], handlers.Handler]:
    def register(function: Callable[..., Any]) -> handlers.Handler:
        handlers.unregister("h")
        handlers.handler("h", **policy)(function)
        return Middleware(given).find("h")

    return register


def of(**headers: Any) -> Delivery:
    return replace(DELIVERY, headers=headers)


def test_without_middleware_nothing_is_in_between() -> None:
    middleware = Middleware.configured()
    assert middleware.find == handlers.find
    assert middleware.alike is None


def test_the_first_is_the_outermost() -> None:
    function = around(f"{__name__}.outer", f"{__name__}.inner")(lambda delivery: seen.append("handler")).function
    assert isinstance(execute(function, DELIVERY).outcome, Complete)
    assert seen == ["outer in 7", "inner in", "handler", "inner out", "outer out"]


def test_an_unknown_handler_stays_unknown() -> None:
    assert Middleware([outer]).find("nobody") is None


def test_a_handler_is_wrapped_once_and_again_when_it_changes() -> None:
    middleware = Middleware([outer])
    handlers.handler("h")(lambda delivery: None)
    first = middleware.find("h")
    assert middleware.find("h") is first
    handlers.unregister("h")
    handlers.handler("h")(lambda delivery: 42)
    assert middleware.find("h").function(DELIVERY) == 42


def test_a_middleware_that_cannot_be_imported_is_named() -> None:
    with pytest.raises(ImportError, match="nowhere"):
        Middleware(["nowhere.at_all"])


class TestErrors:
    def test_of_entering_is_the_messages_failure(self) -> None:
        def refuses(delivery: Delivery) -> Iterator[None]:
            raise LookupError("no such tenant")
            yield

        execution = execute(around(outer, refuses)(lambda delivery: seen.append("handler")).function, DELIVERY)
        assert execution.error["message"] == "no such tenant"
        assert seen == ["outer in 7", "outer out"]

    def test_of_leaving_is_the_messages_failure(self) -> None:
        def breaks(delivery: Delivery) -> Iterator[None]:
            yield
            raise LookupError("cannot restore")

        execution = execute(around(breaks)(lambda delivery: Complete(1)).function, DELIVERY)
        assert execution.error["message"] == "cannot restore"
        assert execution.raised

    def test_a_middleware_that_swallows_an_error_does_not_make_the_message_done(self) -> None:
        def fails(delivery: Delivery) -> None:
            raise ValueError("no")

        execution = execute(around(outer, lambda delivery: suppress(Exception))(fails).function, DELIVERY)
        assert execution.error["message"] == "no"
        assert seen == ["outer in 7", "outer out"]

    def test_nor_one_that_swallows_the_error_of_another_middleware(self) -> None:
        def refuses(delivery: Delivery) -> Iterator[None]:
            raise LookupError("no such tenant")
            yield

        execution = execute(around(lambda delivery: suppress(Exception), refuses)(lambda d: None).function, DELIVERY)
        assert execution.error["message"] == "no such tenant"

    def test_a_middleware_may_turn_an_error_into_an_outcome(self) -> None:
        def forgives(delivery: Delivery) -> Iterator[None]:
            try:
                yield
            except LookupError as error:
                raise Complete("nothing to do") from error

        def fails(delivery: Delivery) -> None:
            raise LookupError

        execution = execute(around(forgives)(fails).function, DELIVERY)
        assert execution.outcome.result == "nothing to do"

    def test_what_is_no_context_manager_is_named(self) -> None:
        def forgot_to_yield(delivery: Delivery) -> None: ...

        execution = execute(around(forgot_to_yield)(lambda delivery: None).function, DELIVERY)
        assert "forgot_to_yield returned NoneType" in execution.error["message"]

    def test_an_async_one_cannot_surround_a_sync_handler(self) -> None:
        execution = execute(around(waiting)(lambda delivery: None).function, DELIVERY)
        assert execution.error["type"] == "django_pgqueue.exceptions.HandlerError"
        assert "plain generator function" in execution.error["message"]

    def test_the_traceback_shows_the_projects_frames_only(self) -> None:
        def fails(delivery: Delivery) -> None:
            raise ValueError("no")

        error = execute(around(outer)(fails).function, DELIVERY).error
        assert "in fails" in error["traceback"]
        assert "django_pgqueue/worker/" not in error["traceback"]


class TestAsync:
    def run(self, handler: handlers.Handler, argument: Any = DELIVERY) -> Any:
        return asyncio.run(handler.function(argument))

    def test_both_kinds_surround_it(self) -> None:
        @around(outer, waiting, inner)
        async def handler(delivery: Delivery) -> str:
            await asyncio.sleep(0)
            seen.append("handler")
            return "answer"

        assert self.run(handler) == "answer"
        expected = ["outer in 7", "waiting in", "inner in", "handler", "inner out", "waiting out", "outer out"]
        assert seen == expected

    def test_a_swallowed_error_stays_an_error(self) -> None:
        async def fails(delivery: Delivery) -> None:
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            self.run(around(lambda delivery: suppress(Exception))(fails))

    def test_handlers_that_run_at_the_same_time_see_their_own_context(self) -> None:
        @around(restores_tenant)
        async def handler(delivery: Delivery) -> bool:
            await asyncio.sleep(0.001 * (delivery.id % 3))
            return tenant.get() == delivery.context["tenant"]

        async def all_of_them() -> list[bool]:
            calls = (handler.function(replace(of(tenant=f"t{number}"), id=number)) for number in range(50))
            return await asyncio.gather(*calls)

        assert all(asyncio.run(all_of_them()))

    def test_what_cannot_be_entered_is_named(self) -> None:
        async def handler(delivery: Delivery) -> None: ...

        with pytest.raises(HandlerError, match="returned int"):
            self.run(around(lambda delivery: 42)(handler))


class TestContext:
    def test_what_a_handler_leaves_in_context_variables_is_gone_afterwards(self) -> None:
        execute(around(restores_tenant)(lambda delivery: tenant.set("forgotten")).function, of(tenant="a"))
        assert tenant.get() is None

    def test_a_batch_gets_the_context_of_its_first_message(self) -> None:
        handler = around(restores_tenant, batch=5)(lambda deliveries: seen.append(tenant.get()))
        execute_batch(handler.function, [of(tenant="a"), replace(of(tenant="a"), id=8)])
        assert seen == ["a"]


class TestAlike:
    def test_without_a_word_on_what_it_reads_all_must_be_equal(self) -> None:
        alike = Middleware([outer]).alike
        assert alike(of(a=1, b=[2]), of(b=[2], a=1))
        assert not alike(of(a=1), of(a=2))
        assert not alike(of(), replace(of(), channel="other"))
        assert not alike(of(), replace(of(), channel_context={"a": 1}))
        assert alike(of(a=1), replace(of(), channel_context={"a": 1}))

    def test_only_what_it_reads_counts(self) -> None:
        def reader(delivery: Delivery) -> Iterator[None]:
            yield

        reader.reads = ("tenant",)
        alike = Middleware([reader]).alike
        assert alike(of(tenant="a", order=1), replace(of(tenant="a", order=2), channel="other"))
        assert not alike(of(tenant="a"), of(tenant="b"))
        assert not alike(of(tenant="a"), of())

    def test_one_that_reads_all_decides_for_the_others(self) -> None:
        def reader(delivery: Delivery) -> Iterator[None]:
            yield

        reader.reads = ("tenant",)
        assert not Middleware([reader, outer]).alike(of(order=1), of(order=2))

    def test_one_that_reads_nothing_does_not_matter(self) -> None:
        def reader(delivery: Delivery) -> Iterator[None]:
            yield

        reader.reads = ()
        assert Middleware([reader]).alike is None


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of Python 3.12 and newer
def test_a_child_of_a_fork_does_not_leave_through_the_middleware(drain: Any, register: Any) -> None:
    def marks(delivery: Delivery) -> Iterator[None]:
        yield
        sql("INSERT INTO scripted_mark (name) VALUES ('left')")

    def forks(delivery: Delivery) -> None:
        child = os.fork()
        if child:
            os.waitpid(child, 0)

    register("forks", forks)
    with override_settings(DJANGO_PGQUEUE={"HANDLER_MIDDLEWARE": [marks]}):
        message = script(handler="forks")
        assert drain() == {"completed": 1}
    assert where(message) == "completed"
    assert marks_of("left") == 1


@pytest.mark.parametrize("atomic", [False, True])
def test_the_timeout_of_a_handler_holds_for_its_middleware(drain: Any, register: Any, atomic: bool) -> None:
    def hangs(delivery: Delivery) -> Iterator[None]:
        for _ in range(10_000):
            time.sleep(0.01)
        yield

    register("quick", lambda delivery: None, timeout=timedelta(seconds=0.2), atomic=atomic)
    with override_settings(DJANGO_PGQUEUE={"HANDLER_MIDDLEWARE": [hangs]}):
        message = script(handler="quick", max_attempts=1)
        assert drain() == {"dead_lettered": 1}
    assert where(message) == "dead: timed_out"


def test_middleware_is_inside_of_the_transaction_of_an_atomic_handler(drain: Any, register: Any) -> None:
    def writes(delivery: Delivery) -> Iterator[None]:
        sql("INSERT INTO scripted_mark (name) VALUES ('in')")
        yield
        sql("INSERT INTO scripted_mark (name) VALUES ('out')")
        if delivery.payload == "fail":
            raise LookupError("cannot restore")

    register("atomic", lambda delivery: None, atomic=True)
    with override_settings(DJANGO_PGQUEUE={"HANDLER_MIDDLEWARE": [writes]}):
        enqueue("atomic", "fail", max_attempts=1)
        enqueue("atomic", "ok")
        assert drain() == {"completed": 1, "dead_lettered": 1}
    assert (marks_of("in"), marks_of("out")) == (1, 1)


def test_both_ways_keep_the_name_of_the_handler() -> None:
    async def late(delivery: Delivery) -> None: ...

    def early(delivery: Delivery) -> None: ...

    assert surround(early, [], batch=False).__name__ == "early"
    assert surround_async(late, [], batch=False).__name__ == "late"


def test_a_middleware_that_says_so_is_given_the_whole_batch() -> None:
    given: list[Any] = []

    def all_of_it(deliveries: Any) -> Iterator[None]:
        given.append(deliveries)
        yield

    all_of_it.whole = True
    batch = around(all_of_it, inner, batch=10)(lambda deliveries: None)
    execute_batch(batch.function, [of(n=1), of(n=2)])
    single = around(all_of_it)(lambda delivery: None)
    execute(single.function, of(n=3))
    assert given == [[of(n=1), of(n=2)], of(n=3)]
