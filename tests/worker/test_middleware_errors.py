"""Middleware that raises or swallows, and middleware of async handlers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from django_pgqueue import Complete, Delivery, handlers
from django_pgqueue.exceptions import HandlerError
from django_pgqueue.worker.executor import execute
from tests.support.deliveries import DELIVERY
from tests.worker.test_middleware import (
    _fresh,  # noqa: F401  (a fixture)
    around,
    inner,
    of,
    outer,
    restores_tenant,
    seen,
    tenant,
)


async def waiting(delivery: Delivery) -> AsyncIterator[None]:
    await asyncio.sleep(0)
    seen.append("waiting in")
    yield
    await asyncio.sleep(0)
    seen.append("waiting out")


class TestErrors:
    def test_of_entering_is_the_messages_failure(self) -> None:
        def refuses(delivery: Delivery) -> Iterator[None]:
            raise LookupError("no such tenant")
            yield

        execution = execute(around(outer, refuses)(lambda delivery: seen.append("handler")).function, DELIVERY)[0]
        assert execution.error["message"] == "no such tenant"
        assert seen == ["outer in 7", "outer out"]

    def test_of_leaving_is_the_messages_failure(self) -> None:
        def breaks(delivery: Delivery) -> Iterator[None]:
            yield
            raise LookupError("cannot restore")

        execution = execute(around(breaks)(lambda delivery: Complete(1)).function, DELIVERY)[0]
        assert execution.error["message"] == "cannot restore"
        assert execution.raised

    def test_a_middleware_that_swallows_an_error_does_not_make_the_message_done(self) -> None:
        def fails(delivery: Delivery) -> None:
            raise ValueError("no")

        execution = execute(around(outer, lambda delivery: suppress(Exception))(fails).function, DELIVERY)[0]
        assert execution.error["message"] == "no"
        assert seen == ["outer in 7", "outer out"]

    def test_nor_one_that_swallows_the_error_of_another_middleware(self) -> None:
        def refuses(delivery: Delivery) -> Iterator[None]:
            raise LookupError("no such tenant")
            yield

        execution = execute(around(lambda delivery: suppress(Exception), refuses)(lambda d: None).function, DELIVERY)[0]
        assert execution.error["message"] == "no such tenant"

    def test_a_middleware_may_turn_an_error_into_an_outcome(self) -> None:
        def forgives(delivery: Delivery) -> Iterator[None]:
            try:
                yield
            except LookupError as error:
                raise Complete("nothing to do") from error

        def fails(delivery: Delivery) -> None:
            raise LookupError

        execution = execute(around(forgives)(fails).function, DELIVERY)[0]
        assert execution.outcome.result == "nothing to do"

    def test_a_middleware_that_returns_no_context_manager_is_named(self) -> None:
        def forgot_to_yield(delivery: Delivery) -> None: ...

        execution = execute(around(forgot_to_yield)(lambda delivery: None).function, DELIVERY)[0]
        assert "forgot_to_yield returned NoneType" in execution.error["message"]

    def test_an_async_one_cannot_surround_a_sync_handler(self) -> None:
        execution = execute(around(waiting)(lambda delivery: None).function, DELIVERY)[0]
        assert execution.error["type"] == "django_pgqueue.exceptions.HandlerError"
        assert "plain generator function" in execution.error["message"]

    def test_the_traceback_shows_the_projects_frames_only(self) -> None:
        def fails(delivery: Delivery) -> None:
            raise ValueError("no")

        error = execute(around(outer)(fails).function, DELIVERY)[0].error
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

    def test_a_middleware_that_cannot_be_entered_is_named(self) -> None:
        async def handler(delivery: Delivery) -> None: ...

        with pytest.raises(HandlerError, match="returned int"):
            self.run(around(lambda delivery: 42)(handler))
