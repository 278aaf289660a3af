"""A queue that nobody serves has floors of its own: it holds no other queue back, and nothing of it is lost."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.support.sessions import Session, one
from tests.support.verbs import dequeue, drain, enqueue, make_channel, settle, tick

QUEUES = ["busy", "slow", "lazy"]
# A queue is behind when its first entry is older than ten ticks.
BEHIND = 15


def floors(session: Session, queue: str) -> tuple[int, int]:
    """Return where the scans of a queue begin: the places of lanes and of fresh lanes."""
    [row] = session.execute("SELECT lane_seq, fresh_seq FROM pgqueue_floor_of(%s)", [queue])
    return row


def test_a_queue_that_nobody_serves_holds_no_other_back(session: Session) -> None:
    """An old snapshot keeps dead rows: each dequeue of the others would walk all that were left since its message."""
    make_channel(session, "a", "unserved")
    make_channel(session, "a", "busy")
    enqueue(session, "a", "unserved")
    for _ in range(BEHIND):
        enqueue(session, "a", "busy")
        drain(session, queue="busy")
        tick(session)
    before = one(session, "SELECT last_value FROM pgqueue_lane_seq")
    enqueue(session, "a", "busy")
    drain(session, queue="busy")
    tick(session, 2)

    assert min(floors(session, "busy")) >= before > min(floors(session, "unserved"))
    assert len(dequeue(session, queue="unserved")) == 1


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_lost_in_any_queue(session: Session, connect: Callable[..., Session], seed: int) -> None:
    """Some are served often, some nearly never, while transactions stay open through many ticks."""
    chance = random.Random(seed)
    limits = [{}, {"release_interval": "3 ms"}, {"max_concurrency": 1}]
    for queue in QUEUES:
        for channel, limit in zip("abc", limits, strict=True):
            make_channel(session, channel, queue, **limit)
    others = [connect() for _ in range(3)]
    enqueued, held = 0, []
    for _ in range(250):
        [step] = chance.choices(["enqueue", "late", "commit", "dequeue", "settle", "tick"], [3, 2, 1, 4, 3, 5])
        queue = chance.choices(QUEUES, [20, 3, 1])[0]
        if step == "enqueue":
            enqueued += enqueue(session, chance.choice("abc"), queue) > 0
        elif step == "late":
            enqueued += enqueue(chance.choice(others), chance.choice("abc"), queue) > 0
        elif step == "commit":
            chance.choice(others).commit()
        elif step == "dequeue":
            held += dequeue(session, chance.choice([1, 1, 4]), queue=queue)
        elif step == "settle":
            settle(session, held)
            enqueued, held = enqueued - len(held), []
        else:
            tick(session)
    for other in others:
        other.commit()
    settle(session, held)
    left = enqueued - len(held)
    for _ in range(100):
        tick(session)
        left -= sum(len(drain(session, queue=queue)) for queue in QUEUES)
        if not left:
            break
        session.execute("SELECT pg_sleep(0.003)")

    assert (left, one(session, "SELECT count(*) FROM pgqueue_message")) == (0, 0)


def test_a_queue_that_is_served_again_needs_no_floor_of_its_own(session: Session) -> None:
    for queue in ("busy", "slow"):
        make_channel(session, "a", queue)
    enqueue(session, "a", "slow")
    for _ in range(BEHIND):
        enqueue(session, "a", "busy")
        drain(session, queue="busy")
        tick(session)
    own = "SELECT count(*) FROM pgqueue_floor WHERE queue = 'slow' AND id = (SELECT max(id) FROM pgqueue_floor)"
    assert one(session, own) == 1
    assert len(drain(session, queue="slow")) == 1
    for _ in range(3):
        enqueue(session, "a", "busy")
        tick(session)

    assert one(session, own) == 0
