"""Procrastinate: its async tasks and connector, as its documentation has them."""

import asyncio
import os

import common
from procrastinate import App, PsycopgConnector, RetryStrategy

app = App(
    connector=PsycopgConnector(conninfo=os.environ["DATABASE_URL"], max_size=int(os.environ.get("POOL", common.POOL)))
)


@app.task(name="noop")
async def noop(**payload: object) -> None: ...


@app.task(name="mark")
async def mark(key: int, **payload: object) -> None:
    common.started(key)


@app.task(name="poison", retry=RetryStrategy(max_attempts=3, wait=1))
async def poison(key: int, **payload: object) -> None:
    common.poison(key)


@app.task(name="hold")
def hold(key: int, **payload: object) -> None:
    common.hold(key)


async def main() -> None:
    verb, count, plan = common.arguments()
    async with app.open_async():
        if verb == "install":
            await app.schema_manager.apply_schema_async()
        elif verb == "fill":
            for keys in common.chunks(count):
                await noop.batch_defer_async(*(common.payload(key) for key in keys))
        else:
            await common.aproduce(plan, lambda task, key: app.tasks[task].defer_async(**common.payload(key)))


if __name__ == "__main__":
    asyncio.run(main())
