"""Celery: tasks without results, on the broker that the benchmark started."""

import os

import celery_counts  # noqa: F401 (it connects to the signals)
import common
from celery import Celery

URL = os.environ["DATABASE_URL"]

app = Celery("benchmark", broker=URL)
app.conf.task_ignore_result = True
if URL.startswith("amqp"):
    app.conf.broker_transport_options = {"confirm_publish": True}  # an enqueue returns when the broker has the message


@app.task(name="noop")
def noop(**payload: object) -> None: ...


@app.task(name="mark")
def mark(key: int, **payload: object) -> None:
    common.started(key)


@app.task(name="poison", autoretry_for=(common.Poisoned,), max_retries=2, default_retry_delay=1)
def poison(key: int, **payload: object) -> None:
    common.poison(key)


@app.task(name="hold")
def hold(key: int, **payload: object) -> None:
    common.hold(key)


def main() -> None:
    verb, count, plan = common.arguments()
    if verb == "fill":
        plan = common.Plan(clients=common.POOL, count=count)  # there is no bulk enqueue
    if verb != "install":
        common.produce(plan, lambda task, key: app.tasks[task].apply_async(kwargs=common.payload(key)))


if __name__ == "__main__":
    main()
