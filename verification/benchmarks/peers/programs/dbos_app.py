"""DBOS: workflows on a queue, in a system database of their own, as its documentation has them."""

import json
import os
import signal
import sys

import common
import sqlalchemy
from dbos import DBOS, DBOSClient

URL = os.environ["DATABASE_URL"]
QUEUE = "benchmark"


@DBOS.workflow(name="noop")
def noop(payload: dict[str, object]) -> None: ...


@DBOS.workflow(name="mark")
def mark(payload: dict[str, object]) -> None:
    common.started(payload["key"])


@DBOS.step(retries_allowed=True, max_attempts=3, interval_seconds=1, backoff_rate=1)
def fail(key: int) -> None:
    common.poison(key)


@DBOS.workflow(name="poison")
def poison(payload: dict[str, object]) -> None:
    fail(payload["key"])


@DBOS.workflow(name="hold")
def hold(payload: dict[str, object]) -> None:
    common.hold(payload["key"])


def work(settings: dict[str, object]) -> None:
    config = {
        "name": "benchmark",
        "system_database_url": URL,
        "application_version": "1",
        "executor_id": str(os.getpid()),
        "log_level": "ERROR",
        "run_migrations": False,
    }
    DBOS(config=config)
    DBOS.launch()
    DBOS.register_queue(QUEUE, **settings)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    DBOS.destroy()


def fill(client: DBOSClient, count: int) -> None:
    """There is no bulk enqueue; a thousand in a transaction are the fastest way."""
    engine = sqlalchemy.create_engine(URL.replace("postgresql:", "postgresql+psycopg:", 1))
    for keys in common.chunks(count):
        with engine.begin() as connection:
            for key in keys:
                options = {"workflow_name": "noop", "queue_name": QUEUE}
                client.enqueue_in_transaction(connection, options, common.payload(key))


def main() -> None:
    verb, count, plan = common.arguments()
    if verb == "install":
        DBOS.migrate(URL)
        return
    client = DBOSClient(system_database_url=URL, system_database_pool_size=common.POOL)
    if verb == "fill":
        fill(client, count)
    else:
        common.produce(
            plan, lambda name, key: client.enqueue({"workflow_name": name, "queue_name": QUEUE}, common.payload(key))
        )
    client.destroy()


if __name__ == "__main__":
    work(json.loads(sys.argv[2])) if sys.argv[1] == "work" else main()
