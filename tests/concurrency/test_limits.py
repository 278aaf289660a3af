"""C7: max_concurrency, release_interval and pause hold exactly at every commit, redeliveries included."""

from __future__ import annotations

import pytest

from tests.concurrency.limited_workers import LimitedWorkers
from tests.support.chance import Chance, seeds
from tests.support.sessions import Connect, Session, one
from tests.support.verbs import dequeue, enqueue, enqueue_many, fill, make_channel, settle, tick


@pytest.mark.parametrize("seed", seeds(2))
def test_max_concurrency_is_never_exceeded(session: Session, connect: Connect, seed: int) -> None:
    wanted = {"one": 1, "three": 3, "free": None}
    for name, limit in wanted.items():
        make_channel(session, name, max_concurrency=limit)
        for _ in range(40):
            enqueue(session, name, max_attempts=1000)
    workers = LimitedWorkers(seed, connect)

    workers.run()

    # Reached, too: a limit that lets no message through would hold as well.
    assert workers.peak["one"] == 1
    assert workers.peak["three"] == 3


def test_a_large_call_gives_a_limited_channel_a_second_turn_within_its_limit(session: Session) -> None:
    """Messages of the same call are not leased yet, and count at the second turn all the same."""
    make_channel(session, "a", max_concurrency=4)
    enqueue_many(session, ["a"] * 10)
    for name in ("b", "c"):
        make_channel(session, name)
        enqueue(session, name)
    leases = dequeue(session, 9)
    assert sorted(lease.channel for lease in leases) == ["a", "a", "a", "a", "b", "c"]
    assert dequeue(session, 9) == []
    settle(session, [lease for lease in leases if lease.channel == "a"][:1])
    assert [lease.channel for lease in dequeue(session, 9)] == ["a"]


@pytest.mark.parametrize("seed", seeds(2))
def test_limits_that_change_all_the_time(session: Session, connect: Connect, seed: int) -> None:
    names = ["a", "b"]
    for name in names:
        make_channel(session, name, max_concurrency=1)
        for _ in range(80):
            enqueue(session, name, max_attempts=1000)
    workers = LimitedWorkers(seed, connect)
    operator = connect(autocommit=True)

    def edit() -> None:
        chance = Chance(seed, "operator")
        while not workers.done.is_set():
            name = chance.random.choice(names)
            match chance.random.randrange(4):
                case 0:
                    operator.execute("SELECT pgqueue_channel_pause('default', %s)", [name])
                case 1 | 2:
                    operator.execute("SELECT pgqueue_channel_resume('default', %s)", [name])
                case 3:
                    make_channel(operator, name, max_concurrency=chance.random.choice([1, 2, 4]))
            chance.pause(0.01)
            if one(operator, "SELECT count(*) FROM pgqueue_message") < 20:
                for paused in names:
                    operator.execute("SELECT pgqueue_channel_resume('default', %s)", [paused])
                return

    workers.run(edit)


def test_a_limit_counts_the_leases_that_were_being_taken_when_it_came(
    session: Session, business: Session, connect: Connect
) -> None:
    """A channel without limits is served without its lane: what commits after the limit was set counts, too."""
    make_channel(session, "a")
    fill(session, "a", 6)
    tick(session)
    holder = connect()
    first = dequeue(holder, 1)  # has the lane
    early = dequeue(business, 1)  # is served without it
    assert len(early) == 1
    settle(holder, first)
    holder.commit()
    make_channel(session, "a", max_concurrency=1)
    settle(session, dequeue(session, 1))
    business.commit()

    assert dequeue(session, 5) == []
    settle(session, early)
    assert len(dequeue(session, 5)) == 1


def test_a_rolled_back_dequeue_frees_its_places(session: Session, business: Session) -> None:
    make_channel(session, "a", max_concurrency=2)
    fill(session, "a", 4)
    assert len(dequeue(business, 5)) == 2
    assert dequeue(session, 5) == []
    business.rollback()

    assert len(dequeue(session, 5)) == 2
