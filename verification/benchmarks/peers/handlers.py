"""The same handlers as the other contestants have; `async def` when the environment says so."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django_pgqueue.delivery import Delivery
from django_pgqueue.handlers import handler

from .programs import common

ASYNC = "BENCHMARK_ASYNC"


def register(name: str, work: Callable[[int], None], **policy: Any) -> None:
    async def asynchronous(delivery: Delivery) -> None:
        work(delivery.payload["key"])

    def synchronous(delivery: Delivery) -> None:
        work(delivery.payload["key"])

    handler(f"peers.{name}", **policy)(asynchronous if os.environ.get(ASYNC) else synchronous)


register("noop", lambda key: None)
register("mark", common.started)
register("poison", common.poison, max_attempts=3, backoff=timedelta(seconds=1))
register("hold", common.hold)
