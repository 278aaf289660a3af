"""PgQueuer: asyncpg, uvloop and pgqueuer.run, which is what its command `pgq run` calls."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg
import common
import pgqueuer
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.errors import RetryRequested
from pgqueuer.models import Job
from pgqueuer.queries import Queries

URL = os.environ["DATABASE_URL"]
ATTEMPTS = 3


@asynccontextmanager
async def worker() -> AsyncIterator[PgQueuer]:
    pgq = PgQueuer(AsyncpgDriver(await asyncpg.connect(URL)))

    @pgq.entrypoint("noop")
    async def noop(job: Job) -> None: ...

    @pgq.entrypoint("mark")
    async def mark(job: Job) -> None:
        common.started(json.loads(job.payload)["key"])

    @pgq.entrypoint("poison", on_failure="hold")
    async def poison(job: Job) -> None:
        try:
            common.poison(json.loads(job.payload)["key"])
        except common.Poisoned as error:
            if job.attempts + 1 < ATTEMPTS:
                raise RetryRequested(timedelta(seconds=1)) from error
            raise

    @pgq.entrypoint("hold")
    async def hold(job: Job) -> None:
        await asyncio.to_thread(common.hold, json.loads(job.payload)["key"])

    yield pgq


async def serve() -> None:
    verb, count, plan = common.arguments()
    async with asyncpg.create_pool(URL, min_size=1, max_size=common.POOL) as pool:
        queries = Queries(AsyncpgPoolDriver(pool))
        if verb == "install":
            await queries.install()
        elif verb == "fill":
            for keys in common.chunks(count):
                payloads = [json.dumps(common.payload(key)).encode() for key in keys]
                await queries.enqueue(["noop"] * len(keys), payloads, [0] * len(keys))
        else:
            await common.aproduce(
                plan, lambda name, key: queries.enqueue(name, json.dumps(common.payload(key)).encode())
            )


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(pgqueuer.run(worker, **json.loads(sys.argv[2])) if sys.argv[1] == "work" else serve())
