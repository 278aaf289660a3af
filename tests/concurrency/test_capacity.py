"""Shares of capacity: fairness="share" and max_share, by the leases that channels hold."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.chance import Chance, seeds
from tests.support.sessions import Connect, Session, one, together
from tests.support.verbs import Lease, dequeue, enqueue, enqueue_many, fill, make_channel, set_queue, settle, tick


def hold(session: Session, count: int, *, limit: int = 1) -> Counter[str]:
    """Lease ``count`` messages in calls for ``limit``. Returns the leases of each channel."""
    return Counter(lease.channel for _ in range(count // limit) for lease in dequeue(session, limit))


def held(session: Session) -> dict[str, int]:
    """Return how many leases each channel holds."""
    rows = session.execute(
        "SELECT c.name, count(*) FROM pgqueue_message AS m JOIN pgqueue_channel AS c ON c.id = m.channel_id"
        " WHERE m.status = 2 GROUP BY c.name"
    )
    return {name: count for name, count in rows}  # noqa: C416  (mypy)


def work_at(session: Session, concurrency: int, name: str = "w", queue: str = "default") -> None:
    """Register a worker."""
    session.execute(
        "INSERT INTO pgqueue_worker (name, hostname, pid, queues, concurrency, version)"
        " VALUES (%s, 'host', 1, jsonb_build_array(%s::text), %s, '0')",
        [name, queue, concurrency],
    )


@pytest.fixture
def tenants(session: Session) -> None:
    """Channels without messages."""
    for name in ("a", "b", "c"):
        make_channel(session, name)


@pytest.mark.parametrize(("fairness", "expected"), [("turns", {"b": 2, "a": 2}), ("share", {"b": 4})])
def test_a_tenant_at_its_share_has_no_turn_while_another_one_waits(
    session: Session, tenants: None, fairness: str, expected: dict[str, int]
) -> None:
    """A holds all eight. Of the next four places B gets each one, and then each has its half."""
    set_queue(session, fairness=fairness)
    fill(session, "a", 30)
    running = [lease for _ in range(8) for lease in dequeue(session)]
    fill(session, "b", 30)
    started: list[str] = []
    for lease in running[:4]:
        settle(session, [lease])
        started += [new.channel for new in dequeue(session)]

    assert Counter(started) == expected


def test_alone_it_gets_all(session: Session, tenants: None) -> None:
    set_queue(session, fairness="share")
    fill(session, "a", 20)

    assert hold(session, 8) == {"a": 8}
    assert len(dequeue(session, 12)) == 12


def test_capacity_that_others_leave_goes_to_the_tenant_that_waits(session: Session, tenants: None) -> None:
    """Also in the call that serves the others first."""
    set_queue(session, fairness="share")
    fill(session, "a", 20)
    hold(session, 8)
    enqueue_many(session, ["b", "b"])

    assert Counter(lease.channel for lease in dequeue(session, 6)) == {"b": 2, "a": 4}


@pytest.mark.parametrize("limit", [1, 4, 16])
def test_shares_follow_the_weights(session: Session, tenants: None, limit: int) -> None:
    make_channel(session, "b", weight=3)
    set_queue(session, fairness="share")
    enqueue_many(session, ["a", "b"] * 40)

    assert hold(session, 16, limit=limit) == {"a": 4, "b": 12}


def test_a_tenant_that_others_outnumber_has_a_place_still(session: Session) -> None:
    """Thirty tenants and eight places: no tenant holds two while another one waits for the first."""
    names = [f"t{place}" for place in range(30)]
    for name in names:
        make_channel(session, name)
    set_queue(session, fairness="share")
    enqueue_many(session, [name for name in names for _ in range(5)])

    assert max(hold(session, 24, limit=8).values()) == 1


@pytest.mark.parametrize("seed", seeds(2))
def test_no_channel_is_ahead_of_its_share_while_another_one_waits(
    session: Session, connect: Connect, tenants: None, seed: int
) -> None:
    """Parallel dequeues of one message: the gate makes the count of each exact."""
    set_queue(session, fairness="share", max_concurrency=9)
    enqueue_many(session, ["a"] * 60 + ["b"] * 60 + ["c"] * 60)
    sessions = [connect(autocommit=True) for _ in range(4)]
    wrong: list[dict[str, int]] = []

    def work(place: int) -> None:
        chance = Chance(seed, f"worker {place}")
        mine: list[Lease] = []
        for _ in range(60):
            mine += dequeue(sessions[place])
            counts = held(sessions[place])
            if max(counts.values(), default=0) > 3:
                wrong.append(counts)
            if mine and chance.of(0.5):
                settle(sessions[place], [mine.pop(chance.random.randrange(len(mine)))])

    together(*(lambda place=place: work(place) for place in range(4)))

    assert wrong == []
    assert sum(held(session).values()) <= 9


def test_limits_of_a_channel_hold_beside_the_share(session: Session, tenants: None) -> None:
    make_channel(session, "a", max_concurrency=2)
    set_queue(session, fairness="share")
    enqueue_many(session, ["a"] * 10 + ["b"] * 10)

    assert Counter(lease.channel for lease in dequeue(session, 9)) == {"a": 2, "b": 7}
    assert hold(session, 3) == {"b": 3}


def test_a_call_takes_no_message_twice(session: Session, tenants: None) -> None:
    """A lane with a weight keeps its place in the middle of its turn, and is seen again."""
    make_channel(session, "a", weight=10)
    make_channel(session, "b", weight=10)
    set_queue(session, fairness="share")
    enqueue_many(session, ["a"] * 30 + ["b"] * 3)
    for _ in range(3):
        ids = [lease.id for lease in dequeue(session, 9)]
        assert len(ids) == len(set(ids)) == 9


def test_a_part_of_the_slots_is_kept_free(session: Session, tenants: None) -> None:
    work_at(session, 4)
    work_at(session, 4, "v")
    work_at(session, 4, "elsewhere", "mails")
    set_queue(session, max_share=0.75)
    fill(session, "a", 20)

    assert len(dequeue(session, 8)) == 6
    assert dequeue(session) == []
    assert not one(session, "SELECT pgqueue_is_contended('{default}')"), "a worker may sleep"
    enqueue(session, "b")
    assert one(session, "SELECT pgqueue_is_contended('{default}')")
    assert [lease.channel for lease in dequeue(session, 2)] == ["b"]


def test_a_worker_that_died_has_no_slots(session: Session, tenants: None) -> None:
    for name in ("alive", "dead", "stopping", "paused"):
        work_at(session, 4, name)
    session.execute(
        "UPDATE pgqueue_worker SET heartbeat_at = heartbeat_at - CASE name WHEN 'dead' THEN interval '1 minute'"
        " ELSE '0' END, state = CASE name WHEN 'stopping' THEN name ELSE 'running' END,"
        " paused_at = CASE name WHEN 'paused' THEN heartbeat_at END"
    )
    set_queue(session, max_share=0.5)
    fill(session, "a", 20)

    assert len(dequeue(session, 8)) == 2


def test_without_workers_the_places_are_those_of_the_limit(session: Session, tenants: None) -> None:
    set_queue(session, max_share=0.5)
    fill(session, "a", 20)
    assert len(dequeue(session, 8)) == 8, "the number of slots is not known"
    set_queue(session, max_concurrency=12)
    assert dequeue(session, 8) == []
    set_queue(session, max_concurrency=20)
    assert len(dequeue(session, 8)) == 2


def test_one_message_is_always_allowed(session: Session, tenants: None) -> None:
    work_at(session, 1)
    set_queue(session, max_share=0.01)
    fill(session, "a", 5)

    assert len(dequeue(session, 5)) == 1


@pytest.mark.parametrize("verb", ["matching", "stream"])
def test_the_part_holds_for_one_channel_alone(session: Session, tenants: None, verb: str) -> None:
    work_at(session, 4)
    set_queue(session, max_share=0.5)
    fill(session, "a", 9)
    if verb == "matching":
        session.execute("SELECT id FROM pgqueue_dequeue_matching('default', 9, p_handler => 'work')")
    else:
        channel = one(session, "SELECT id FROM pgqueue_channel WHERE name = 'a'")
        assert len(one(session, "SELECT ids FROM pgqueue_take('default', 9, %s)", channel)) == 2
        return

    assert held(session) == {"a": 2}


def test_a_channel_that_comes_back_is_not_hidden_by_a_lazy_arrival(
    session: Session, business: Session, tenants: None
) -> None:
    """B stood in the line when its message came, and was emptied before that committed."""
    set_queue(session, fairness="share")
    fill(session, "a", 20)
    hold(session, 4)
    enqueue(session, "b")
    session.execute("SELECT pgqueue_tick()")
    enqueue(business, "b")
    [first] = [lease for lease in dequeue(session) if lease.channel == "b"]
    settle(session, [first])
    dequeue(session)
    business.commit()

    assert [lease.channel for lease in dequeue(session)] == ["b"]


@pytest.mark.parametrize("held", ["lane", "arrival"])
def test_a_channel_whose_lane_another_transaction_holds_does_not_lose_its_place(
    session: Session, business: Session, tenants: None, held: str
) -> None:
    """A tick holds the lanes and arrivals that it folds. Meanwhile no channel gets more than its share."""
    set_queue(session, fairness="share")
    fill(session, "a", 20)
    hold(session, 4)
    fill(session, "b", 5)
    if held == "lane":
        tick(session)
        lane = "SELECT FROM pgqueue_lane WHERE channel_id = (SELECT id FROM pgqueue_channel WHERE name = 'b')"
        assert len(business.execute(f"{lane} FOR UPDATE").fetchall()) == 1
    else:
        business.execute("SELECT pgqueue_fold('default', false, clock_timestamp())")

    assert dequeue(session, 2) == []
    assert one(session, "SELECT pgqueue_is_contended('{default}')"), "a worker asks again soon"
    business.rollback()
    assert Counter(lease.channel for lease in dequeue(session, 2)) == {"b": 2}
