"""While an open snapshot keeps dead rows, a worker ticks more often, so that dequeues walk fewer of them."""

from __future__ import annotations

import pytest

from django_pgqueue.maintenance.floors import SHORT_PART, Floors, TickCounts
from django_pgqueue.maintenance.loop import MaintenanceStep, Rounds
from tests.support.sessions import Connect, Session
from tests.support.verbs import dequeue, enqueue_many, make_channel, settle
from tests.support.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)


def work(session: Session) -> None:
    """Enqueue, dequeue and complete messages of many channels: each leaves a dead arrival and dead lanes."""
    names = [f"c{n}" for n in range(50)]
    for name in names:
        make_channel(session, name)
    for _ in range(6):
        enqueue_many(session, names)
        settle(session, dequeue(session, 50))


def test_a_tick_is_followed_soon_by_the_next_one_if_it_walks_many_dead_entries(connect: Connect) -> None:
    snapshot = connect(autocommit=False)
    snapshot.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    snapshot.execute("SELECT count(*) FROM pgqueue_lane")
    floors = Floors()
    eventually(lambda: floors.run_once("default").part == 1.0)
    work(connect(autocommit=True))
    assert floors.run_once("default").part == SHORT_PART
    # The floors pass what is dead at the second tick after that, unless other transactions are open.
    eventually(lambda: floors.run_once("default").part == 1.0)


def test_the_interval_of_a_step_is_shorter_if_the_step_says_so() -> None:
    for part, longest in ((1.0, 0.22), (0.25, 0.055)):
        step = MaintenanceStep("tick", "TICK_INTERVAL", lambda using, part=part: TickCounts(0, part))
        assert longest * 0.7 < Rounds("default", [step]).run_due() <= longest
