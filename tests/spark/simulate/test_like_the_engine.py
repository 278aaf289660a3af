"""The simulated line beside the real one: the same messages, served second by second, in the same order."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from django_pgqueue import channel_set, complete, dequeue, queue_set
from django_pgqueue.lifecycle.tick import tick
from django_pgqueue.spark.simulate.engine import Simulation
from django_pgqueue.spark.simulate.lane import SimulatedMessage
from django_pgqueue.spark.simulate.limits import ChannelLimits, QueueLimits
from tests.support.moments import pass_time
from tests.support.sql import sql

pytestmark = pytest.mark.django_db

SECOND = 1_000_000
# Seconds of the engine for one of the simulation: beside so many, the time that the test itself takes is nothing.
STRETCH = 1_000
STEPS = 40


def make(
    chance: random.Random, limits: dict[str, ChannelLimits], messages: int, costs: tuple[int, ...] = (1,)
) -> list[SimulatedMessage]:
    """The same channels and messages in the database and for the simulation, all of them due now."""
    for name, each in limits.items():
        interval = None if each.release_interval is None else timedelta(microseconds=each.release_interval * STRETCH)
        channel_set(
            channel=name,
            max_concurrency=each.max_concurrency,
            release_interval=interval,
            release_burst=each.release_burst,
            weight=each.weight,
        )
    channels = [*limits, *chance.choices(list(limits), k=messages - len(limits))]
    priorities = [chance.randrange(3) for _ in channels]
    prices = [chance.choice(costs) for _ in channels]
    rows = sql(
        "SELECT id FROM pgqueue_enqueue_many(array_fill('h'::text, ARRAY[%s]), NULL, %s, p_priorities => %s,"
        " p_costs => %s)",
        len(channels),
        channels,
        priorities,
        prices,
    )
    return [
        SimulatedMessage(id=key, channel=channel, rank=-priority, arrives_at=0, due_at=0, runs=(SECOND,), cost=price)
        for (key,), channel, priority, price in zip(rows, channels, priorities, prices, strict=True)
    ]


def served_by_the_engine(slots: int) -> list[list[int]]:
    """Return ids by second. A message that was leased in one second is done in the next, and a worker ticks."""
    seconds = []
    for _ in range(STEPS):
        tick()
        leased = []
        while len(leased) < slots and (got := dequeue(limit=slots - len(leased))):
            leased += got
        seconds.append([delivery.id for delivery in leased])
        pass_time(seconds=STRETCH)
        complete(leased)
    return seconds


def served_by_the_simulation(
    messages: list[SimulatedMessage], limits: dict[str, ChannelLimits], slots: int, queue: QueueLimits | None = None
) -> list[list[int]]:
    seconds: list[list[int]] = [[] for _ in range(STEPS)]

    def record(message: SimulatedMessage, waited: int) -> None:
        assert waited % SECOND == 0
        seconds[waited // SECOND].append(message.id)

    Simulation(limits, slots, record, queue=queue).run(messages)
    return seconds


@pytest.mark.parametrize("statistics", ["as they are", "of an empty line"])
@pytest.mark.parametrize("seed", range(8))
def test_turns_weights_and_priorities_give_the_same_order(seed: int, statistics: str):
    """The plans of the engine's statements do not matter."""
    if statistics == "of an empty line":
        sql("UPDATE pg_class SET reltuples = 0, relpages = 1 WHERE relname = 'pgqueue_lane' RETURNING 1")
    chance = random.Random(seed)
    limits = {f"c{n}": ChannelLimits(weight=chance.randint(1, 4)) for n in range(chance.randint(1, 6))}
    messages = make(chance, limits, 60)
    slots = chance.choice([2, 3, 5, 8])
    assert served_by_the_simulation(messages, limits, slots) == served_by_the_engine(slots)


@pytest.mark.parametrize("seed", range(8))
def test_limits_and_rates_let_the_same_messages_through(seed: int):
    chance = random.Random(seed)
    limits = {
        f"c{n}": ChannelLimits(
            max_concurrency=chance.choice([None, 1, 2, 3]),
            release_interval=chance.choice([None, SECOND, 2 * SECOND]),
            release_burst=chance.randint(1, 3),
            weight=chance.randint(1, 3),
        )
        for n in range(5)
    }
    messages = make(chance, limits, 40)
    ours, engines = served_by_the_simulation(messages, limits, 100), served_by_the_engine(100)
    # Which channel is first does not matter: there is room for all.
    assert list(map(sorted, ours)) == list(map(sorted, engines))


@pytest.mark.parametrize("seed", range(4))
def test_limits_of_the_queue_let_as_many_messages_through_in_the_same_order(seed: int):
    chance = random.Random(seed)
    limits = {f"c{n}": ChannelLimits(weight=chance.randint(1, 3)) for n in range(4)}
    messages = make(chance, limits, 30)
    queue = QueueLimits(max_concurrency=3) if seed % 2 else QueueLimits(release_interval=SECOND, release_burst=4)
    queue_set(
        "default",
        max_concurrency=queue.max_concurrency,
        rate=None if queue.release_interval is None else f"1/{STRETCH}s burst {queue.release_burst}",
    )
    assert served_by_the_simulation(messages, limits, 8, queue) == served_by_the_engine(8)


@pytest.mark.parametrize("seed", range(6))
def test_rates_let_messages_of_the_same_cost_through(seed: int):
    chance = random.Random(seed)
    limits = {f"c{n}": ChannelLimits(release_interval=SECOND, release_burst=chance.randint(1, 6)) for n in range(4)}
    messages = make(chance, limits, 24, costs=(1, 1, 2, 3, 5))
    ours, engines = served_by_the_simulation(messages, limits, 100), served_by_the_engine(100)
    assert list(map(sorted, ours)) == list(map(sorted, engines))


@pytest.mark.parametrize("fairness", ["turns", "share"])
@pytest.mark.parametrize("seed", range(4))
def test_a_rate_of_the_queue_lets_messages_of_the_same_cost_through_in_the_same_order(seed: int, fairness: str):
    chance = random.Random(seed)
    limits = {f"c{n}": ChannelLimits(weight=chance.randint(1, 3)) for n in range(3)}
    messages = make(chance, limits, 16, costs=(1, 1, 2, 3))
    queue = QueueLimits(release_interval=SECOND, release_burst=4, fairness=fairness)
    queue_set("default", rate=f"1/{STRETCH}s burst 4", fairness=fairness)
    assert served_by_the_simulation(messages, limits, 8, queue) == served_by_the_engine(8)


@pytest.mark.parametrize("seed", range(4))
def test_shares_give_the_same_order(seed: int):
    chance = random.Random(seed)
    limits = {f"c{n}": ChannelLimits(weight=chance.randint(1, 3)) for n in range(4)}
    messages = make(chance, limits, 40)
    queue_set("default", fairness="share")
    queue = QueueLimits(fairness="share")
    assert served_by_the_simulation(messages, limits, 6, queue) == served_by_the_engine(6)
