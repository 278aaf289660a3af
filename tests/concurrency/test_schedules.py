"""Many workers, one tick: all but the first do nothing."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import timedelta

import psycopg
import pytest
from django.db import connections

from django_pgqueue.maintenance.scheduler import Scheduler
from django_pgqueue.models import Schedule
from tests.support.chance import seeds
from tests.support.sessions import Session, column, one, together
from tests.support.verbs import make_channel

DUE = """
INSERT INTO pgqueue_schedule (name, handler, every, next_fire_at, missed)
VALUES (%s, 'work', '1 minute', date_trunc('second', clock_timestamp()) - interval '10 seconds', 'once')
RETURNING id
"""
FIRE = """
SELECT outcome FROM pgqueue_schedule_fire(
    %s, %s, ARRAY[date_trunc('second', clock_timestamp()) - interval '10 seconds'],
    clock_timestamp() + interval '1 minute')
"""
VERSION = "SELECT xmin::text::bigint FROM pgqueue_schedule WHERE id = %s"


@pytest.fixture
def schedule(session: Session) -> int:
    return one(session, DUE, "nightly")


def scheduler() -> None:
    try:
        Scheduler().run_once("default")
    finally:
        connections.close_all()


@pytest.mark.parametrize("seed", seeds(3))
def test_many_schedulers_fire_each_tick_once(session: Session, seed: int) -> None:
    for n in range(20):
        one(session, DUE, f"s{n}")
    together(*[scheduler] * 6)
    fired = Counter(column(session, "SELECT headers ->> 'schedule' FROM pgqueue_message"))
    assert fired == {f"s{n}": 1 for n in range(20)}
    assert one(session, "SELECT count(*) FROM pgqueue_schedule_tick") == 20
    assert one(session, "SELECT bool_and(next_fire_at > clock_timestamp()) FROM pgqueue_schedule")


def test_a_scheduler_that_died_in_between_has_fired_nothing(
    session: Session, business: psycopg.Connection, schedule: int
) -> None:
    """Its transaction is gone, and with it tick, message and plan: the next one fires."""
    version = one(session, VERSION, schedule)
    assert column(business, FIRE, schedule, version) == ["created"]
    business.rollback()
    scheduler()
    assert one(session, "SELECT count(*) FROM pgqueue_message") == 1


def test_a_call_that_comes_while_another_fires_does_not_wait(
    session: Session, business: psycopg.Connection, schedule: int
) -> None:
    version = one(session, VERSION, schedule)
    assert column(business, FIRE, schedule, version) == ["created"]
    assert column(session, FIRE, schedule, version) == []
    business.commit()
    assert column(session, FIRE, schedule, version) == []
    assert one(session, "SELECT count(*) FROM pgqueue_message") == 1


def test_ticks_of_an_old_definition_do_not_fire(session: Session, other: Session, schedule: int) -> None:
    """Edited after they were computed: also when the edit commits while the firing looks for the row."""
    version = one(session, VERSION, schedule)
    other.execute("UPDATE pgqueue_schedule SET cron = '0 0 1 1 *', every = NULL")
    assert column(session, FIRE, schedule, version) == []
    version = one(session, VERSION, schedule)
    other.execute("UPDATE pgqueue_schedule SET enabled = false")
    assert column(session, FIRE, schedule, one(session, VERSION, schedule)) == []
    assert one(session, "SELECT count(*) FROM pgqueue_message") == 0


def test_a_tick_in_the_future_is_refused(session: Session, schedule: int) -> None:
    """The clock of the worker does not count."""
    version = one(session, VERSION, schedule)
    with pytest.raises(psycopg.Error) as raised:
        session.execute(
            "SELECT * FROM pgqueue_schedule_fire(%s, %s, ARRAY[clock_timestamp() + interval '1 hour'], NULL)",
            [schedule, version],
        )
    assert raised.value.sqlstate == "PGQ07"


def test_a_channel_that_others_fill_holds_up_no_other_schedule(
    session: Session, business: psycopg.Connection, schedule: int
) -> None:
    """Only a channel with max_size makes the scheduler wait, and not for long."""
    make_channel(session, "small", max_size=5)
    busy = one(session, DUE, "busy")
    session.execute("UPDATE pgqueue_schedule SET channel = 'small', next_fire_at = '2000-01-01' WHERE id = %s", [busy])
    business.execute("SELECT pgqueue_enqueue('work', p_channel => 'small')")
    thread = threading.Thread(target=scheduler)
    thread.start()
    thread.join(200)
    assert not thread.is_alive()
    assert column(session, "SELECT headers ->> 'schedule' FROM pgqueue_message") == ["nightly"]
    business.rollback()
    scheduler()
    assert one(session, "SELECT count(*) FROM pgqueue_message") == 2


def test_a_run_by_hand_that_is_not_committed_holds_up_no_other_schedule(
    session: Session, business: psycopg.Connection, schedule: int
) -> None:
    """Without overlap, both have the same dedupe key."""
    one(session, DUE, "busy")
    session.execute("UPDATE pgqueue_schedule SET overlap = false, next_fire_at = '2000-01-01' WHERE name = 'busy'")
    business.execute("SELECT pgqueue_schedule_run('busy')")
    thread = threading.Thread(target=scheduler)
    thread.start()
    thread.join(200)
    stuck = thread.is_alive()
    business.commit()
    thread.join(200)
    assert not stuck
    fired = column(session, "SELECT headers ->> 'schedule' FROM pgqueue_message ORDER BY 1")
    assert fired == ["busy", "nightly"]
    scheduler()
    assert set(column(session, "SELECT outcome FROM pgqueue_schedule_tick WHERE schedule = 'busy'")) == {
        "created", "duplicate",
    }  # fmt: skip


def test_editing_waits_for_no_scheduler_and_the_next_plan_is_the_new_one(session: Session, schedule: int) -> None:
    scheduler()
    Schedule.objects.filter(pk=schedule).update(every=timedelta(hours=5))
    scheduler()
    planned = Schedule.objects.get(pk=schedule).next_fire_at
    age = planned - one(session, "SELECT clock_timestamp()")
    assert timedelta(hours=4, minutes=59) < age <= timedelta(hours=5)
