"""Limits hold exactly, and whoever waits for one is served when it has room: no wake-up depends on an edge."""

from __future__ import annotations

import random

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.engine import Engine, Lease


def test_a_limit_of_a_channel_holds_until_a_message_is_settled(engine: Engine) -> None:
    engine.channel("one", most=2)
    engine.fill("one", 5)
    first = engine.dequeue(5)
    assert len(first) == 2
    assert engine.dequeue(5) == []
    engine.complete(first[0])
    assert len(engine.dequeue(5)) == 1


def test_a_full_shared_limit_holds_up_no_message_without_it(engine: Engine) -> None:
    engine.channel("one")
    limit = engine.limit("api", 1)
    engine.fill("one", 50, limits=[limit])
    plain = engine.enqueue("one")
    assert {lease.id for lease in engine.dequeue(2)} >= {plain}
    assert engine.dequeue(5) == []


def test_a_lane_that_waits_for_two_limits_goes_on_when_both_have_room(engine: Engine) -> None:
    engine.channel("one")
    engine.channel("two")
    both = [engine.limit(name, 1) for name in ("a", "b")]
    blocked_by_first = engine.enqueue("one", limits=both[:1])
    blocked_by_second = engine.enqueue("one", limits=both[1:])
    holders = engine.dequeue(2)
    assert {lease.id for lease in holders} == {blocked_by_first, blocked_by_second}
    needs_both = engine.enqueue("one", limits=both)
    needs_first = engine.enqueue("two", limits=both[:1])
    assert engine.dequeue(5) == []
    engine.complete(next(lease for lease in holders if lease.id == blocked_by_first))
    # The one that needs both takes no place, so the next one that waits for the first gets it.
    went = engine.dequeue(5)
    assert [lease.id for lease in went] == [needs_first]
    engine.complete(next(lease for lease in holders if lease.id == blocked_by_second))
    assert engine.dequeue(5) == []
    engine.complete(*went)
    assert [lease.id for lease in engine.dequeue(5)] == [needs_both]


def test_a_paused_channel_is_served_again_when_it_is_resumed(engine: Engine) -> None:
    engine.channel("one", most=5)
    message = engine.enqueue("one")
    meter = engine.value("SELECT meter_id FROM pgqueue_channel")
    engine.session.execute("SELECT pgqueue_meter_close(%s, 'infinity')", (meter,))
    assert engine.dequeue() == []
    engine.session.execute("SELECT pgqueue_meter_close(%s, NULL)", (meter,))
    assert [lease.id for lease in engine.dequeue()] == [message]


def test_a_rate_gives_its_burst_and_then_its_step(engine: Engine) -> None:
    engine.channel("one", every="1 hour", burst=3)
    engine.fill("one", 10)
    assert len(engine.dequeue(10)) == 3
    assert engine.dequeue(10) == []


def test_a_costly_message_waits_for_its_tokens_and_is_not_passed(engine: Engine) -> None:
    engine.channel("one")
    limit = engine.limit("tokens", every="1 hour", burst=10)
    cheap = engine.enqueue("one", limits=[limit], cost=5)
    costly = engine.enqueue("one", limits=[limit], cost=8)
    engine.enqueue("one", limits=[limit], cost=1)
    assert [lease.id for lease in engine.dequeue(5)] == [cheap]
    assert engine.dequeue(5) == []
    engine.session.execute("UPDATE pgqueue_level SET tokens = 9 WHERE meter_id = %s", (limit,))
    engine.session.execute("SELECT pgqueue_meter_close(%s, NULL)", (limit,))
    assert [lease.id for lease in engine.dequeue(5)][:1] == [costly]


def test_an_ordered_channel_delivers_nothing_before_its_message_is_settled_for_good(engine: Engine) -> None:
    engine.channel("one", ordered=True)
    first, second = engine.enqueue("one"), engine.enqueue("one")
    lease = engine.dequeue(5)
    assert [one.id for one in lease] == [first]
    engine.enqueue("one", priority=9)
    engine.retry(*lease)
    again = engine.dequeue(5)
    assert [one.id for one in again] == [first]
    engine.retry(*again, delay="1 hour")
    assert engine.dequeue(5) == []
    engine.session.execute("UPDATE pgqueue_message SET dequeue_at = clock_timestamp() WHERE id = %s", (first,))
    engine.tick()
    engine.complete(*engine.dequeue(5))
    urgent = engine.dequeue(5)
    assert [one.id for one in urgent] != [second]
    engine.complete(*urgent)
    assert [one.id for one in engine.dequeue(5)] == [second]


def test_messages_of_one_order_key_go_one_after_the_other_and_hold_up_no_other_key(engine: Engine) -> None:
    engine.channel("one")
    first, second = engine.enqueue("one", key="a"), engine.enqueue("one", key="a")
    other = engine.enqueue("one", key="b")
    leases = engine.dequeue(5)
    assert [lease.id for lease in leases] == [first, other]
    assert engine.dequeue(5) == []
    engine.retry(leases[0])
    again = engine.dequeue(5)
    assert [lease.id for lease in again] == [first]
    engine.complete(*again)
    assert [lease.id for lease in engine.dequeue(5)] == [second]


def test_a_share_goes_to_the_channel_that_holds_the_fewest_leases(engine: Engine) -> None:
    engine.queue("shared", fairness="share")
    for name in ("one", "two"):
        engine.channel(name, queue="shared")
        engine.fill(name, 20)
    leases = engine.dequeue(8, queue="shared")
    assert sorted(lease.channel for lease in leases) == ["one"] * 4 + ["two"] * 4
    engine.complete(*(lease for lease in leases if lease.channel == "one"))
    assert [lease.channel for lease in engine.dequeue(4, queue="shared")] == ["one"] * 4


def test_queues_that_share_a_limit_wake_each_other(engine: Engine) -> None:
    engine.queue("other")
    engine.channel("one")
    engine.channel("two", queue="other")
    limit = engine.limit("api", 1)
    engine.enqueue("one", limits=[limit])
    waits = engine.enqueue("two", queue="other", limits=[limit])
    held = engine.dequeue()
    assert engine.dequeue(queue="other") == []
    engine.complete(*held)
    engine.dequeue()
    assert [lease.id for lease in engine.dequeue(queue="other")] == [waits]


def test_a_tick_wakes_another_queue_when_nobody_consumes_this_one(engine: Engine) -> None:
    engine.queue("other")
    engine.channel("one")
    engine.channel("two", queue="other")
    limit = engine.limit("api", 1)
    engine.enqueue("one", limits=[limit])
    waits = engine.enqueue("two", queue="other", limits=[limit])
    held = engine.dequeue()
    assert engine.dequeue(queue="other") == []
    engine.complete(*held)
    engine.tick()
    assert [lease.id for lease in engine.dequeue(queue="other")] == [waits]


def test_a_limit_that_another_transaction_charges_delays_only_its_messages(engine: Engine) -> None:
    limit = engine.limit("api", 1000)
    for number in range(30):
        engine.channel(f"c{number}")
        engine.fill(f"c{number}", 3, limits=[limit])
    engine.channel("plain")
    plain = engine.enqueue("plain")
    other = engine.sessions(autocommit=False)
    other.execute("SELECT FROM pgqueue_level WHERE meter_id = %s FOR UPDATE", (limit,))
    assert [lease.id for lease in engine.dequeue()] == [plain]
    other.rollback()
    assert len(engine.dequeue(90)) == 90


def test_a_transaction_that_edits_a_limit_delays_nobody(engine: Engine) -> None:
    limit = engine.limit("api", 10)
    engine.channel("one")
    message = engine.enqueue("one", limits=[limit])
    other = engine.sessions(autocommit=False)
    other.execute("UPDATE pgqueue_meter SET max_concurrency = 20 WHERE id = %s", (limit,))
    assert [lease.id for lease in engine.dequeue()] == [message]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_once_all_is_quiet_each_message_is_delivered_by_the_next_calls(engine: Engine, seed: int) -> None:
    """Whatever the history: when all leases are settled, what is left comes out without a tick."""
    chance = random.Random(seed)
    engine.session.execute("TRUNCATE pgqueue_message, pgqueue_lane, pgqueue_note, pgqueue_channel")
    engine.session.execute("DELETE FROM pgqueue_meter")
    engine.session.execute("DELETE FROM pgqueue_level")
    limits = [engine.limit(f"limit of {most}", most) for most in (1, 2, 3)]
    names = [f"c{number}" for number in range(6)]
    for number, name in enumerate(names):
        engine.channel(name, most=2 if number == 1 else None, ordered=number == 2, weight=1 + number % 3)
    live: set[int] = set()
    leased: list[Lease] = []
    for _ in range(chance.randint(10, 60)):
        step = chance.random()
        if step < 0.5:
            with engine.session.transaction() as transaction:
                some = chance.sample(limits, chance.randint(0, 2)) or None
                key = chance.choice([None, None, "a", "b"])
                sent = engine.enqueue(chance.choice(names), limits=some, key=key, priority=chance.randint(-1, 1))
                if chance.random() < 0.1:
                    raise psycopg.Rollback(transaction)
                live.add(sent)
        elif step < 0.75:
            leased += engine.dequeue(chance.choice([1, 1, 2, 5]))
        elif step < 0.95 and leased:
            one = leased.pop(chance.randrange(len(leased)))
            if chance.random() < 0.4:
                engine.retry(one)
            else:
                engine.complete(one)
                live.discard(one.id)
        elif live:
            one_id = chance.choice(sorted(live))
            if one_id not in {lease.id for lease in leased}:
                engine.cancel(one_id)
                live.discard(one_id)
    while leased or live:
        if leased:
            engine.complete(*leased)
            live -= {lease.id for lease in leased}
        before = len(live)
        leased = engine.dequeue(5)
        assert leased or not before, (seed, live)
    assert engine.levels() == {}
    assert engine.value("SELECT pgqueue_recount(id) FROM pgqueue_queue") == 0


def test_a_recount_repairs_what_a_delete_by_hand_has_left(engine: Engine) -> None:
    engine.channel("one", most=1)
    engine.fill("one", 2)
    engine.dequeue()
    engine.session.execute("DELETE FROM pgqueue_message WHERE status = 2")
    assert engine.dequeue() == []
    assert engine.value("SELECT pgqueue_recount(id) FROM pgqueue_queue") == 1
    assert len(engine.dequeue()) == 1


@pytest.mark.parametrize("burst", [1, 3])
def test_debts_are_paid_before_anything_goes_on(engine: Engine, burst: int) -> None:
    engine.channel("one")
    limit = engine.limit("tokens", every="1 hour", burst=burst)
    engine.enqueue("one", limits=[limit], cost=100)
    engine.enqueue("one", limits=[limit])
    assert len(engine.dequeue(5)) == 1
    assert engine.dequeue(5) == []


def test_a_call_that_has_read_the_clock_earlier_does_not_fill_the_bucket_twice(engine: Engine) -> None:
    limit = engine.limit("tokens", every="1 second", burst=10)
    side = limit * 16
    engine.session.execute("UPDATE pgqueue_level SET tokens = 5, filled_at = '2026-01-01 12:00:00'")
    for second in (4, 1):
        charge = "SELECT pgqueue_charge(ARRAY[%s], 1, 1, 1, '2026-01-01 12:00:00'::timestamptz + %s * interval '1 s')"
        engine.session.execute(charge, (side, second))
    at_five = "SELECT pgqueue_tokens(m, l, '2026-01-01 12:00:05') FROM pgqueue_meter AS m, pgqueue_level AS l"
    assert engine.value(at_five) == 5 + 5 - 2
