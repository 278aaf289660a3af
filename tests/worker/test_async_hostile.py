"""Async handlers that block, hang, or do what they may not."""

from __future__ import annotations

import asyncio

from django_pgqueue import Delivery
from django_pgqueue.models import Channel
from django_pgqueue.models import DeadLetter as DeadMessage
from tests.worker.conftest import script, scripts
from tests.worker.test_async import Drain, Register


class TestHostile:
    """Deeds that no handler should do, and that cost the others nothing all the same."""

    def test_cancelling_everything(self, drain: Drain, register: Register) -> None:
        async def cancel(delivery: Delivery) -> None:
            for task in asyncio.all_tasks():
                if delivery.attempt == 1:
                    task.cancel()

        async def good(delivery: Delivery) -> None:
            await asyncio.sleep(0.001)

        register("cancel", cancel)
        register("good", good)
        scripts(3, handler="cancel")
        scripts(50, handler="good")
        scripts(3, handler="cancel")
        totals = drain(async_concurrency=4)
        assert totals["completed"] == 56

    def test_stopping_the_loop(self, drain: Drain, register: Register) -> None:
        async def stop(delivery: Delivery) -> None:
            asyncio.get_running_loop().stop()
            await asyncio.sleep(0.001)

        register("stop", stop)
        scripts(5, handler="stop")
        assert drain() == {"completed": 5}

    def test_leaving_a_task_behind(self, drain: Drain, register: Register) -> None:
        left: set[asyncio.Task[None]] = set()

        async def leave(delivery: Delivery) -> None:
            left.add(asyncio.create_task(asyncio.sleep(3600)))

        register("leave", leave)
        scripts(5, handler="leave")
        assert drain() == {"completed": 5}
        assert all(task.cancelled() for task in left)

    def test_asking_the_database_without_waiting(self, drain: Drain, register: Register) -> None:
        async def query(delivery: Delivery) -> None:
            Channel.objects.count()

        register("query", query)
        message = script(handler="query", max_attempts=1)
        assert drain() == {"dead_lettered": 1}
        assert "SynchronousOnlyOperation" in DeadMessage.objects.get(id=message).errors[0]["type"]
