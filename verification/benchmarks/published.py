"""The workloads that others have published figures of."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

from . import scripted
from .contest import Contest
from .design import CHANNEL_ROW, PGQUEUE, RAW_FLOOR
from .measure import mixed
from .plan import Plan, others
from .worker import drain_by_worker

SIZES = {"22 bytes": 22, "1 KB": 1024}
TWO_PROCESSES = ("--processes", "2", "--batch", "500")


def payload(size: int) -> str:
    """JSON of so many bytes."""
    return json.dumps({"n": "x" * (size - len(json.dumps({"n": ""})))})


def sizes(plan: Plan) -> list[Contest]:
    """5 producers and 40 consumers, as in a talk about pgmq."""

    def contest(name: str, batch: int) -> Contest:
        # channel_row gives out one message a call.
        rivals = ((RAW_FLOOR, CHANNEL_ROW, PGQUEUE) if batch == 1 else (RAW_FLOOR, PGQUEUE)) + others()
        run = partial(mixed, channels=1, seconds=plan.seconds, batch=batch, producers=5, consumers=40)
        return Contest(
            f"payload of {name}, batch {batch}, 5 producers + 40 consumers",
            "completed/s",
            RAW_FLOOR.name,
            {design.name: partial(run, plan.cluster, design, payload=payload(SIZES[name])) for design in rivals},
            absent=scripted.absent(),
        )

    return [contest(name, batch) for name in SIZES for batch in (1, 10)]


def jobs(plan: Plan) -> list[Contest]:
    """graphile-worker and River drain 200,000."""
    run = partial(drain_by_worker, plan.cluster, messages=plan.sizes.jobs)
    return [
        Contest(
            f"{plan.sizes.jobs:,} jobs that do nothing, drained by runqueueworker, 16 channels",
            "messages/s",
            "default",
            {
                "default": partial(run, handler="benchmark.noop", options=()),
                "2 processes": partial(run, handler="benchmark.noop", options=(*TWO_PROCESSES, "--concurrency", "8")),
                "2 processes, async def": partial(
                    run, handler="benchmark.async_noop", options=(*TWO_PROCESSES, "--async-concurrency", "500")
                ),
            },
        )
    ]


WORKLOADS: dict[str, Callable[[Plan], list[Contest]]] = {"sizes": sizes, "jobs": jobs}
