"""Dramatiq: actors on Redis."""

import os

import common
import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq_counts import Counting

broker = RedisBroker(url=os.environ["DATABASE_URL"])
broker.add_middleware(Counting())
dramatiq.set_broker(broker)


@dramatiq.actor
def noop(**payload: object) -> None: ...


@dramatiq.actor
def mark(key: int, **payload: object) -> None:
    common.started(key)


@dramatiq.actor(max_retries=2, min_backoff=1_000, max_backoff=1_000)
def poison(key: int, **payload: object) -> None:
    common.poison(key)


@dramatiq.actor(time_limit=float("inf"))
def hold(key: int, **payload: object) -> None:
    common.hold(key)


def main() -> None:
    verb, count, plan = common.arguments()
    if verb == "fill":
        plan = common.Plan(clients=common.POOL, count=count)  # there is no bulk enqueue
    if verb != "install":
        common.produce(plan, lambda actor, key: broker.get_actor(actor).send(**common.payload(key)))


if __name__ == "__main__":
    main()
