"""HANDLER_MIDDLEWARE around the calls of handlers: sync, async, batches, atomic ones."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings

from django_pgqueue import Complete, Delivery, enqueue, handlers
from django_pgqueue.worker.executor import execute
from django_pgqueue.worker.middleware import Middleware
from tests.support.deliveries import DELIVERY
from tests.support.sql import sql
from tests.worker.conftest import marks as marks_of
from tests.worker.conftest import script, where

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
    assert isinstance(execute(function, DELIVERY)[0].outcome, Complete)
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


class TestContext:
    def test_context_variables_that_a_handler_sets_are_gone_afterwards(self) -> None:
        execute(around(restores_tenant)(lambda delivery: tenant.set("forgotten")).function, of(tenant="a"))
        assert tenant.get() is None

    def test_a_batch_gets_the_context_of_its_first_message(self) -> None:
        handler = around(restores_tenant, batch=5)(lambda deliveries: seen.append(tenant.get()))
        execute(handler.function, [of(tenant="a"), replace(of(tenant="a"), id=8)])
        assert seen == ["a"]


class TestAlike:
    def test_without_a_word_on_what_it_reads_all_must_be_equal(self) -> None:
        alike = Middleware([outer]).alike
        assert alike(of(a=1, b=[2]), of(b=[2], a=1))
        assert not alike(of(a=1), of(a=2))
        assert not alike(of(), replace(of(), channel="other"))
        assert not alike(of(), replace(of(), channel_context={"a": 1}))
        assert not alike(of(), replace(of(), queue="other"))

    def test_a_header_does_not_pass_for_the_context_of_a_channel(self) -> None:
        """A middleware that does not trust headers would run the second message as the tenant of the first."""

        def reader(delivery: Delivery) -> Iterator[None]:
            yield

        reader.reads = ("tenant",)
        own, forged = replace(of(), channel_context={"tenant": "a"}), of(tenant="a")
        for middleware in (Middleware([reader]), Middleware([outer])):
            assert not middleware.alike(own, forged)
            assert not middleware.alike(own, replace(forged, channel_context={"tenant": "b"}))
            assert middleware.alike(own, replace(own, id=own.id + 1))
            assert not middleware.alike(own, replace(own, headers={"tenant": "b"}))

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


def test_a_middleware_that_says_so_is_given_the_whole_batch() -> None:
    given: list[Any] = []

    def all_of_it(deliveries: Any) -> Iterator[None]:
        given.append(deliveries)
        yield

    all_of_it.whole = True
    batch = around(all_of_it, inner, batch=10)(lambda deliveries: None)
    execute(batch.function, [of(n=1), of(n=2)])
    single = around(all_of_it)(lambda delivery: None)
    execute(single.function, of(n=3))
    assert given == [[of(n=1), of(n=2)], of(n=3)]
