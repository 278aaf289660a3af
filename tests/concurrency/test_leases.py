"""C4: a live lease is exclusive. Many sessions drain the same backlog: every message once, none left."""

from __future__ import annotations

from collections import Counter
from itertools import chain

import pytest

from tests.support.chance import Chance, seeds
from tests.support.sessions import Connect, Session, column, one, together
from tests.support.verbs import Lease, dequeue, drain, enqueue, enqueue_many, make_channel, settle, tick

WORKERS = 8


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize(("channels", "limit"), [(1, 1), (1, 25), (40, 1), (40, 25)])
def test_every_message_is_delivered_once(
    session: Session, connect: Connect, channels: int, limit: int, seed: int
) -> None:
    chance = Chance(seed, "backlog").random
    names = [f"channel{place}" for place in range(channels)]
    for name in names:
        make_channel(session, name)
    ids: list[int] = []
    while len(ids) < 150 * (1 if limit == 1 else 4):
        if chance.random() < 0.5:
            ids.append(enqueue(session, chance.choice(names)))
        else:
            ids += enqueue_many(session, chance.choices(names, k=20))
    workers = [connect(autocommit=True) for _ in range(WORKERS)]

    def work(place: int) -> list[Lease]:
        own = Chance(seed, f"worker {place}")
        taken: list[Lease] = []
        empty = 0
        while empty < 3:
            leases = dequeue(workers[place], own.random.randint(1, limit))
            empty = 0 if leases else empty + 1
            assert len(leases) <= limit
            settle(workers[place], leases)
            taken += leases
        return taken

    taken = list(chain(*together(*(lambda place=place: work(place) for place in range(WORKERS)))))

    assert Counter(lease.id for lease in taken) == Counter(ids)
    assert {lease.attempts for lease in taken} == {1}
    assert sorted(column(session, "SELECT id FROM pgqueue_archived_message")) == sorted(ids)
    assert one(session, "SELECT count(*) FROM pgqueue_message") == 0


def test_a_hot_channel_is_served_by_all_while_one_holds_its_lane(session: Session, connect: Connect) -> None:
    make_channel(session, "hot")
    ids = enqueue_many(session, ["hot"] * 200)
    holder = connect()
    held = dequeue(holder, 10)
    workers = [connect(autocommit=True) for _ in range(WORKERS)]

    def work(worker: Session) -> list[Lease]:
        taken: list[Lease] = []
        while leases := dequeue(worker, 5):
            settle(worker, leases)
            taken += leases
        return taken

    taken = list(chain(*together(*(lambda worker=worker: work(worker) for worker in workers))))

    assert sorted(lease.id for lease in taken + held) == sorted(ids)
    holder.commit()


def test_pop_delivers_once_under_concurrency(session: Session, connect: Connect) -> None:
    make_channel(session, "a")
    make_channel(session, "b", max_concurrency=1)
    ids = enqueue_many(session, ["a", "b"] * 60)
    workers = [connect(autocommit=True) for _ in range(WORKERS)]

    def work(worker: Session) -> list[int]:
        taken: list[int] = []
        while popped := column(worker, "SELECT id FROM pgqueue_pop('default', 4)"):
            taken += popped
        return taken

    taken = list(chain(*together(*(lambda worker=worker: work(worker) for worker in workers))))
    while popped := column(session, "SELECT id FROM pgqueue_pop('default', 4)"):
        taken += popped

    assert sorted(taken) == sorted(ids)


def test_a_channel_of_one_keeps_its_order(session: Session, connect: Connect) -> None:
    """C8: max_concurrency = 1 is strict first in, first out, also with many workers."""
    make_channel(session, "a", max_concurrency=1)
    ids = enqueue_many(session, ["a"] * 40)
    workers = [connect(autocommit=True) for _ in range(WORKERS)]
    order: list[int] = []

    def work(worker: Session) -> None:
        while len(order) < len(ids):
            for lease in dequeue(worker, 3):
                order.append(lease.id)
                settle(worker, [lease])

    together(*(lambda worker=worker: work(worker) for worker in workers))

    assert order == ids


def test_a_new_message_of_a_resumed_channel_does_not_overtake_those_that_wait(
    session: Session, connect: Connect
) -> None:
    """While it was paused its lane has fallen behind the line, and now another transaction holds it."""
    make_channel(session, "a")
    make_channel(session, "b")
    waiting = enqueue_many(session, "a" * 5)
    session.execute("SELECT pgqueue_channel_pause('default', 'a')")
    assert dequeue(session, 10) == []
    enqueue_many(session, "b" * 20)
    assert len(drain(session, 1)) == 20
    tick(session, 3)
    session.execute("SELECT pgqueue_channel_resume('default', 'a')")
    enqueue(session, "a")
    holder = connect()

    assert [lease.id for lease in dequeue(holder)] == waiting[:1]
    assert [lease.id for lease in dequeue(session)] == waiting[1:2]


def test_a_channel_that_goes_on_has_one_place_in_the_line(session: Session, connect: Connect) -> None:
    """A dequeue that finds only its newest message, because another holds its arrivals, must not give it a second
    place: the messages that wait at the first one would stay behind for ever."""
    make_channel(session, "a")
    make_channel(session, "b")
    waiting = enqueue_many(session, "a" * 5)
    session.execute("SELECT pgqueue_channel_pause('default', 'a')")
    assert dequeue(session, 10) == []
    enqueue_many(session, "b" * 20)
    assert len(drain(session, 1)) == 20
    tick(session, 3)
    session.execute("SELECT pgqueue_channel_resume('default', 'a')")
    holder = connect()
    held = column(holder, "SELECT floor_id FROM pgqueue_arrival FOR UPDATE")
    newest = enqueue(session, "a")

    first = dequeue(session)
    holder.rollback()
    rest = drain(session, 1)

    assert None in held
    assert [lease.id for lease in [*first, *rest]] == [*waiting, newest]


def test_a_message_that_is_locked_does_not_keep_the_leases_of_others_from_being_extended(
    session: Session, connect: Connect
) -> None:
    for _ in range(4):
        enqueue(session)
    kept, locked, lost, gone = dequeue(session, 4)
    session.execute(
        "UPDATE pgqueue_message SET lease_token = gen_random_uuid() WHERE id = ANY (%s)", [[lost.id, gone.id]]
    )
    other = connect()
    other.execute("SELECT FROM pgqueue_message WHERE id = ANY (%s) FOR UPDATE", [[locked.id, gone.id]])

    leases = [lost, locked, gone, kept]
    beat = "SELECT id FROM pgqueue_heartbeat(%s, %s, '1 hour', p_skip_lost => true)"
    held = column(session, beat, [lease.id for lease in leases], [lease.token for lease in leases])

    assert sorted(held) == [kept.id, locked.id]
    late = "SELECT id FROM pgqueue_message WHERE lease_expires_at > now() + interval '50 minutes'"
    assert column(session, late) == [kept.id]
