"""awa: the queue-storage engine and the async client, as its documentation has them."""

import asyncio
import json
import os
import signal
import sys
from dataclasses import dataclass

import awa
import common

URL = os.environ["DATABASE_URL"].replace("@/", "@localhost/", 1)  # it wants a host even where a socket is named


@dataclass
class Noop:
    key: int
    carrier: str
    origin: str
    dest: str
    tail: str
    flight: int
    hour: int


class Mark(Noop): ...


class Poison(Noop): ...


class Hold(Noop): ...


KINDS = {kind.__name__.lower(): kind for kind in (Noop, Mark, Poison, Hold)}
ATTEMPTS = 3


async def work(settings: dict[str, object]) -> None:
    client = awa.AsyncClient(URL, settings.pop("connections", 10))

    @client.task(Noop)
    async def noop(job: awa.Job) -> None: ...

    @client.task(Mark)
    async def mark(job: awa.Job) -> None:
        common.started(job.args.key)

    @client.task(Poison)
    async def poison(job: awa.Job) -> None:
        common.poison(job.args.key)

    @client.task(Hold)
    async def hold(job: awa.Job) -> None:
        await asyncio.to_thread(common.hold, job.args.key)

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await client.start([{"name": "default", **settings}])
    await stop.wait()
    await client.shutdown()


async def serve() -> None:
    verb, count, plan = common.arguments()
    async with awa.AsyncClient(URL, common.POOL) as client:
        if verb == "install":
            await client.migrate()
            await client.install_queue_storage(schema="awa")
        elif verb == "fill":
            for keys in common.chunks(count):
                await client.enqueue_many_copy([Noop(**common.payload(key)) for key in keys])
        else:
            await common.aproduce(
                plan, lambda name, key: client.insert(KINDS[name](**common.payload(key)), max_attempts=ATTEMPTS)
            )


if __name__ == "__main__":
    asyncio.run(work(json.loads(sys.argv[2])) if sys.argv[1] == "work" else serve())
