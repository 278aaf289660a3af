"""A pause of a queue while workers take from it: none begins after it, whatever they were at."""

from __future__ import annotations

import threading

from tests.support.sessions import Connect, Session, one, together
from tests.support.verbs import dequeue, fill, make_channel, settle


def pause(session: Session) -> None:
    session.execute("SELECT pgqueue_queue_pause('default', 'a look')")


def resume(session: Session) -> None:
    session.execute("SELECT pgqueue_queue_resume('default')")


def test_no_dequeue_that_begins_after_the_pause_finds_anything(session: Session, connect: Connect) -> None:
    make_channel(session, "limited", max_concurrency=4)
    fill(session, "default", 400)
    fill(session, "limited", 400)
    paused = threading.Event()
    late: list[int] = []
    taken: list[int] = []

    def worker() -> None:
        own = connect(autocommit=True)
        for _ in range(60):
            began_after = paused.is_set()
            leases = dequeue(own, 3)
            taken.extend(lease.id for lease in leases)
            if began_after:
                late.extend(lease.id for lease in leases)
            settle(own, leases)

    def operator() -> None:
        while len(taken) < 20:
            session.execute("SELECT pg_sleep(0.001)")
        pause(session)
        paused.set()

    together(worker, worker, worker, operator)

    assert late == []
    assert len(taken) < 800
    resume(session)
    while leases := dequeue(session, 50):
        taken.extend(lease.id for lease in leases)
        settle(session, leases)
    assert len(taken) == len(set(taken)) == 800


def test_a_pause_that_is_not_committed_stops_no_worker_and_does_not_wait(session: Session, business: Session) -> None:
    fill(session, "default", 2)
    pause(business)
    [lease] = dequeue(session)
    business.commit()
    assert dequeue(session) == []
    assert settle(session, [lease]) == [lease.id]


def test_a_dequeue_under_way_keeps_what_it_took(session: Session, business: Session) -> None:
    fill(session, "default", 2)
    leases = dequeue(business)
    pause(session)
    business.commit()
    assert one(session, "SELECT count(*) FROM pgqueue_message WHERE status = 2") == 1
    assert len(settle(session, leases)) == 1
    assert dequeue(session) == []
