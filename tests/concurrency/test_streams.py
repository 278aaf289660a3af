"""Streams: claims that a crash repeats, one owner at a time, and the limits of channels (C7)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

import psycopg
import pytest

from tests.support.chance import STRESS, Chance, seeds
from tests.support.sessions import Connect, Session, column, one, together, wait_for_lock
from tests.support.verbs import dequeue, drain, enqueue, fill, make_channel, settle, tick


class Claim(NamedTuple):
    batch: int
    messages: int
    settled: int
    lost: int
    contended: bool = False


@pytest.fixture(autouse=True)
def no_streams(session: Session) -> None:
    session.execute("TRUNCATE pgqueue_stream, pgqueue_stream_claim")


def open_stream(session: Session, name: str = "s", queue: str = "default", channel: str | None = None) -> UUID:
    return one(session, "SELECT owner FROM pgqueue_stream_open(%s, %s, %s)", name, queue, channel)


def claim(
    session: Session, owner: UUID, after: int, limit: int = 100, *, name: str = "s", lease: str = "1 minute"
) -> Claim:
    return Claim(
        *session.execute(
            "SELECT * FROM pgqueue_stream_claim(%s, %s, %s, %s, %s::interval)", [name, owner, after, limit, lease]
        ).fetchone()
    )


def claimed(session: Session, name: str = "s") -> list[int]:
    return column(
        session, "SELECT message_id FROM pgqueue_stream_claim WHERE stream = %s ORDER BY batch, message_id", name
    )


def archived(session: Session) -> list[int]:
    return column(session, "SELECT id FROM pgqueue_archived_message ORDER BY id")


def test_a_batch_is_settled_when_the_next_one_is_asked_for(session: Session) -> None:
    fill(session, "default", 5)
    owner = open_stream(session)
    assert claim(session, owner, 0, 3) == Claim(1, 3, 0, 0)
    first = claimed(session)
    assert archived(session) == []
    assert claim(session, owner, 1, 3) == Claim(2, 2, 3, 0)
    assert archived(session) == first
    assert claim(session, owner, 2, 3) == Claim(2, 0, 2, 0)
    assert claim(session, owner, 2, 3) == Claim(2, 0, 0, 0)
    assert len(archived(session)) == 5
    assert claimed(session) == []


def test_a_batch_that_was_not_settled_is_claimed_again_as_it_was(session: Session) -> None:
    fill(session, "default", 5)
    claim(session, open_stream(session), 0, 3)
    before = claimed(session)
    owner = open_stream(session)
    assert claim(session, owner, 0, 5) == Claim(1, 3, 0, 0)
    assert claimed(session) == before
    assert claim(session, owner, 1, 0) == Claim(1, 0, 3, 0), "limit 0 settles, and claims nothing"


def test_a_lease_that_is_lost_is_neither_given_again_nor_settled(session: Session) -> None:
    fill(session, "default", 2)
    owner = open_stream(session)
    claim(session, owner, 0, 2, lease="1 microsecond")
    kept = claimed(session)[1]
    session.execute("UPDATE pgqueue_message SET lease_expires_at = now() + interval '1 hour' WHERE id = %s", [kept])
    session.execute("SELECT pgqueue_sweep()")

    assert claim(session, owner, 0) == Claim(1, 1, 0, 0)
    assert claimed(session) == [kept]
    # The other one comes again, by its retry policy, to whoever asks.
    session.execute("UPDATE pgqueue_message SET dequeue_at = now() WHERE status = 3")
    assert claim(session, owner, 1) == Claim(2, 1, 1, 0)
    assert one(session, "SELECT attempts FROM pgqueue_message") == 2


def test_a_message_that_was_processed_under_a_lost_lease_is_counted(session: Session) -> None:
    fill(session, "default", 2)
    owner = open_stream(session)
    claim(session, owner, 0, 2, lease="1 microsecond")
    session.execute("SELECT pgqueue_sweep()")
    # Not yet: they wait for their next attempt.
    session.execute("UPDATE pgqueue_message SET dequeue_at = now() + interval '1 hour' WHERE status = 3")

    assert claim(session, owner, 1) == Claim(1, 0, 0, 2)
    assert archived(session) == []


def test_leases_are_extended_and_who_lost_them_is_forgotten(session: Session) -> None:
    fill(session, "default", 3)
    owner = open_stream(session)
    claim(session, owner, 0, 3, lease="1 second")
    session.execute("SELECT pgqueue_cancel(ARRAY[%s]::bigint[])", [claimed(session)[0]])
    gone = claimed(session)[1]
    session.execute("DELETE FROM pgqueue_message WHERE id = %s", [gone])

    answer = session.execute("SELECT * FROM pgqueue_stream_extend('s', %s, '1 hour')", [owner]).fetchone()
    assert answer == (2, 1)
    assert gone not in claimed(session)
    assert one(session, "SELECT bool_and(lease_expires_at > now() + interval '59 minutes') FROM pgqueue_message")


def test_another_query_takes_a_stream_over(session: Session, other: Session) -> None:
    fill(session, "default", 3)
    old = open_stream(session)
    claim(session, old, 0, 2)
    new = open_stream(other)
    for call in (
        lambda: claim(session, old, 1),
        lambda: session.execute("SELECT pgqueue_stream_extend('s', %s)", [old]),
    ):
        with pytest.raises(psycopg.Error, match='another query has taken over stream "s"') as caught:
            call()
        assert caught.value.sqlstate == "PGQ02"
    assert archived(session) == []
    assert claim(other, new, 0) == Claim(1, 2, 0, 0)


def test_a_claim_under_way_ends_before_another_query_takes_over(
    session: Session, other: Session, business: Session
) -> None:
    fill(session, "default", 3)
    owner = open_stream(session)
    claim(business, owner, 0, 2)
    taken = threading.Event()

    def take_over() -> Claim:
        other.execute("SET lock_timeout = '20s'")
        new = open_stream(other)
        taken.set()
        return claim(other, new, 0)

    def end() -> None:
        wait_for_lock(session, other)
        assert not taken.is_set()
        business.commit()

    assert together(take_over, end)[0] == Claim(1, 2, 0, 0)


def test_a_checkpoint_that_is_older_than_the_stream_is_refused(session: Session) -> None:
    fill(session, "default", 3)
    owner = open_stream(session)
    claim(session, owner, 0, 1)
    claim(session, owner, 1, 1)
    with pytest.raises(psycopg.Error, match='stream "s" has settled batch 1, its checkpoint ends at batch 0'):
        claim(session, owner, 0)


def test_a_stream_reads_what_it_was_opened_for(session: Session) -> None:
    make_channel(session, "a")
    open_stream(session)
    with pytest.raises(psycopg.Error, match='reads something else: queue "default", channel \\(all\\)'):
        open_stream(session, channel="a")
    with pytest.raises(psycopg.Error, match='channel "b" does not exist'):
        open_stream(session, "other", channel="b")
    with pytest.raises(psycopg.Error, match='queue "nowhere" does not exist'):
        open_stream(session, "other", "nowhere")
    with pytest.raises(psycopg.Error, match='stream "x" does not exist'):
        session.execute("SELECT pgqueue_stream_release('x')")


def test_a_stream_that_is_released_gives_its_messages_back(session: Session) -> None:
    fill(session, "default", 2500)
    owner = open_stream(session)
    claim(session, owner, 0, 2400)
    assert one(session, "SELECT pgqueue_stream_release('s')") == 2400
    assert one(session, "SELECT count(*) FROM pgqueue_message WHERE status = 1 AND attempts = 0") == 2500
    assert len(drain(session, 100)) == 2500
    with pytest.raises(psycopg.Error, match='stream "s" does not exist'):
        claim(session, owner, 0)


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
