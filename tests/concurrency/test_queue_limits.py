"""Limits of a whole queue hold exactly at every commit, for all channels and workers together."""

from __future__ import annotations

import pytest

from tests.concurrency.queue_workers import CHANNELS, QueueWorkers
from tests.support.chance import Chance, seeds
from tests.support.sessions import Connect, Session, column, one
from tests.support.verbs import dequeue, enqueue_many, fill, make_channel, set_queue, settle


@pytest.mark.parametrize("settings", [{}, {"fairness": "share"}, {"max_share": 0.7}])
@pytest.mark.parametrize("seed", seeds(1))
def test_max_concurrency_is_never_exceeded(
    session: Session, connect: Connect, seed: int, settings: dict[str, object]
) -> None:
    for name in CHANNELS:
        make_channel(session, name)
    make_channel(session, "c", max_concurrency=1)
    set_queue(session, max_concurrency=4, **settings)
    enqueue_many(session, CHANNELS * 30)
    # After ten minutes the leases are counted by the list at the gate.
    session.execute("UPDATE pgqueue_queue SET changed_at = changed_at - interval '11 minutes'")
    workers = QueueWorkers(seed, connect)

    workers.run()

    # Reached, too: a limit that lets no message through would hold as well.
    assert workers.peak == 4


@pytest.mark.parametrize("seed", seeds(1))
def test_a_limit_that_changes_all_the_time(session: Session, connect: Connect, seed: int) -> None:
    for name in CHANNELS:
        make_channel(session, name)
    enqueue_many(session, CHANNELS * 40)
    workers = QueueWorkers(seed, connect)
    operator = connect(autocommit=True)

    def edit() -> None:
        chance = Chance(seed, "operator")
        while not workers.done.is_set():
            # Without a limit, a dequeue that is open when one comes is not counted before it commits.
            set_queue(operator, max_concurrency=chance.random.choice([1, 2, 5]))
            chance.pause(0.01)

    set_queue(session, max_concurrency=2)
    workers.run(edit)


@pytest.mark.parametrize("later", [False, True])
def test_a_limit_counts_the_leases_that_were_taken_without_it(session: Session, business: Session, later: bool) -> None:
    """Also of a transaction that was open when the limit came; and after the time when all leases are read."""
    fill(session, "default", 6)
    early = dequeue(session, 1)
    open_one = dequeue(business, 1)
    set_queue(session, max_concurrency=3)
    assert len(dequeue(session, 5)) == 2, "the open one cannot be seen yet"
    business.commit()
    if later:
        session.execute("UPDATE pgqueue_queue SET changed_at = changed_at - interval '11 minutes'")

    assert dequeue(session, 5) == []
    settle(session, early)
    assert dequeue(session, 5) == [], "it holds three of three"
    settle(session, open_one)
    assert len(dequeue(session, 5)) == 1


def test_a_limit_that_was_lifted_for_a_while_counts_what_was_leased_meanwhile(session: Session) -> None:
    fill(session, "default", 9)
    set_queue(session, max_concurrency=2)
    session.execute("UPDATE pgqueue_queue SET changed_at = changed_at - interval '11 minutes'")
    assert len(dequeue(session, 5)) == 2
    set_queue(session, max_concurrency=None)
    assert len(dequeue(session, 2)) == 2
    set_queue(session, max_concurrency=4)

    assert dequeue(session, 5) == []


def test_the_limit_is_of_one_queue(session: Session) -> None:
    make_channel(session, "default", "mails")
    set_queue(session, max_concurrency=1)
    for queue in ("default", "mails"):
        enqueue_many(session, ["default"] * 4, queue)

    assert len(dequeue(session, 4)) == 1
    assert len(dequeue(session, 4, queue="mails")) == 4


def test_a_dequeue_takes_expired_leases_back_and_uses_their_places(session: Session) -> None:
    set_queue(session, max_concurrency=2)
    fill(session, "default", 8)
    killed = dequeue(session, 5, lease="1 microsecond")

    again = dequeue(session, 5)

    assert len(again) == 2
    assert not {lease.token for lease in again} & {lease.token for lease in killed}


def test_a_dequeue_that_is_open_holds_the_gate_and_no_session_waits_for_it(session: Session, business: Session) -> None:
    """A wait for a lock would be an error here. Afterwards nothing is lost."""
    set_queue(session, max_concurrency=5)
    fill(session, "default", 6)
    assert len(dequeue(business, 1)) == 1
    assert dequeue(session, 5) == []
    assert one(session, "SELECT pgqueue_is_contended('{default}')"), "ask again soon"
    set_queue(session, max_concurrency=3)
    session.execute("SELECT pgqueue_queue_pause('default')")
    session.execute("SELECT pgqueue_queue_resume('default')")
    business.rollback()

    assert len(dequeue(session, 5)) == 3


@pytest.mark.parametrize("verb", ["complete", "defer", "dead_letter", "release", "pop"])
def test_each_way_to_give_a_place_back(session: Session, verb: str) -> None:
    set_queue(session, max_concurrency=1)
    fill(session, "default", 3)
    if verb == "pop":
        session.execute("SELECT * FROM pgqueue_pop('default', 5)")
    else:
        [lease] = dequeue(session, 5)
        assert dequeue(session, 5) == []
        match verb:
            case "release":
                session.execute("SELECT * FROM pgqueue_lease_release(%s)", [[lease.id]])
            case "dead_letter":
                settle(session, [lease], verb, ["a test"])
            case _:
                settle(session, [lease], verb)

    assert len(dequeue(session, 5)) == 1


def test_matching_and_popping_obey(session: Session) -> None:
    set_queue(session, max_concurrency=3)
    fill(session, "default", 9)
    matching = "SELECT id FROM pgqueue_dequeue_matching('default', 2, p_handler => 'work')"
    assert len(column(session, matching)) == 2
    assert len(column(session, "SELECT id FROM pgqueue_pop('default', 5)")) == 1
    assert len(column(session, matching)) == 1
    assert column(session, matching) == []


@pytest.mark.parametrize("limit", [1, 3])
def test_the_round_robin_goes_on_under_a_limit(session: Session, limit: int) -> None:
    for name in CHANNELS:
        make_channel(session, name)
    enqueue_many(session, CHANNELS * 20)
    set_queue(session, max_concurrency=2)
    order: list[str] = []
    for _ in range(40):
        leases = dequeue(session, limit)
        order += [lease.channel for lease in leases]
        settle(session, leases)

    assert len(order) >= 40
    for start in range(0, 39, 3):
        assert sorted(order[start : start + 3]) == CHANNELS
