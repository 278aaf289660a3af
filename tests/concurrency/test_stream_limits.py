"""Streams: the order and the limits of channels (C7), also beside workers."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tests.concurrency.streams import Claim, archived, claim, claimed, no_streams, open_stream  # noqa: F401  (a fixture)
from tests.support.chance import STRESS, Chance, seeds
from tests.support.sessions import Connect, Session, together
from tests.support.verbs import dequeue, drain, enqueue, fill, make_channel, settle, tick


def test_one_channel_is_consumed_alone_in_the_order_of_its_messages(session: Session) -> None:
    make_channel(session, "a/b=c")
    fill(session, "default", 5)
    late = enqueue(session, "a/b=c")
    first = enqueue(session, "a/b=c", priority=1)
    enqueue(session, "a/b=c", delay="1 hour")
    owner = open_stream(session, channel="a/b=c")
    assert claim(session, owner, 0, 1).messages == 1
    assert claimed(session) == [first]
    assert claim(session, owner, 1).messages == 1
    assert claimed(session) == [late]
    assert claim(session, owner, 2) == Claim(2, 0, 1, 0)
    assert len(drain(session)) == 5
    new = enqueue(session, "a/b=c")
    assert claim(session, owner, 2).messages == 1
    assert claimed(session) == [new]


def test_the_limits_of_a_channel_hold_for_its_stream(session: Session) -> None:
    make_channel(session, "few", max_concurrency=3)
    make_channel(session, "slow", release_interval="1 hour", release_burst=2)
    for channel in ("few", "slow"):
        fill(session, channel, 10)
    few, slow = open_stream(session, "few", channel="few"), open_stream(session, "slow", channel="slow")
    assert claim(session, few, 0, name="few").messages == 3
    assert dequeue(session, 10)[:2] != []  # of the other channel
    assert claim(session, slow, 0, name="slow").messages == 0
    assert claim(session, few, 1, name="few").messages == 3, "those that were settled left their places"
    session.execute("SELECT pgqueue_channel_pause('default', 'few')")
    assert claim(session, few, 2, name="few") == Claim(2, 0, 3, 0)
    session.execute("SELECT pgqueue_channel_resume('default', 'few')")
    session.execute("SELECT pgqueue_queue_pause('default')")
    assert claim(session, few, 2, name="few").messages == 0
    session.execute("SELECT pgqueue_queue_resume('default')")
    assert claim(session, few, 2, name="few").messages == 3


def test_a_channel_whose_lane_another_transaction_holds_is_shared_unless_it_is_limited(
    session: Session, business: Session
) -> None:
    make_channel(session, "limited", max_concurrency=50)
    for channel in ("default", "limited"):
        fill(session, channel, 10)
    dequeue(business, 4)
    owner = open_stream(session, channel="default")
    assert claim(session, owner, 0).messages > 0
    limited = open_stream(session, "l", channel="limited")
    assert claim(session, limited, 0, name="l") == Claim(0, 0, 0, 0, contended=True)
    business.rollback()
    assert claim(session, limited, 0, name="l").messages == 10


@pytest.mark.parametrize("seed", seeds(3))
def test_no_message_is_lost_or_doubled_and_limits_hold_beside_workers(
    seed: int, session: Session, connect: Connect
) -> None:
    """A stream of the queue, one of a limited channel, a worker and a sender at once; streams crash now and then."""
    names = {"default": None, "one": 1, "three": 3}
    for name, limit in names.items():
        make_channel(session, name, max_concurrency=limit)
    sessions = [connect(autocommit=True) for _ in range(5)]
    sent: list[int] = []
    violations: list[tuple[str, int]] = []
    done = threading.Event()

    def send() -> None:
        chance = Chance(seed, "sender")
        for _ in range(60 * STRESS):
            sent.extend(
                enqueue(sessions[0], chance.random.choice(list(names)), priority=chance.random.choice([0, 0, 1]))
                for _ in range(chance.random.randint(1, 8))
            )
            chance.pause(0.01)
        done.set()

    def stream(place: int, name: str, channel: str | None) -> Callable[[], None]:
        def run() -> None:
            chance = Chance(seed, name)
            session = sessions[place]
            owner, after, idle = open_stream(session, name, channel=channel), 0, 0
            while idle < 3:
                answer = claim(session, owner, after, chance.random.randint(1, 20), name=name)
                for limited, count in session.execute(
                    "SELECT c.name, count(*) FROM pgqueue_message AS m JOIN pgqueue_channel AS c ON c.id = m.channel_id"
                    " WHERE m.status = 2 AND c.max_concurrency IS NOT NULL GROUP BY c.id"
                    " HAVING count(*) > c.max_concurrency"
                ).fetchall():
                    violations.append((limited, count))
                if chance.of(0.2):
                    owner = open_stream(session, name, channel=channel)
                else:
                    after = answer.batch
                idle = idle + 1 if done.is_set() and not answer.messages else 0
                chance.pause(0.01)

        return run

    def work() -> None:
        chance = Chance(seed, "worker")
        idle = 0
        while idle < 3:
            leases = dequeue(sessions[3], chance.random.randint(1, 5))
            chance.pause(0.005)
            settle(sessions[3], leases)
            idle = idle + 1 if done.is_set() and not leases else 0

    together(send, stream(1, "all", None), stream(2, "one", "one"), work)
    tick(session)
    drain(session)
    assert violations == []
    assert archived(session) == sorted(sent)
    assert claimed(session, "all") == claimed(session, "one") == []
