"""The counters that the queue keeps beside its messages are made wrong by hand. None of it comes about by itself."""

from __future__ import annotations

from datetime import timedelta

from django_pgqueue import channel_set, complete, dequeue, enqueue, explain_message, queue_set
from django_pgqueue.lifecycle.upkeep import RepairCounts, repair
from tests.doctor.conftest import Examine
from tests.support.messages import enqueue_numbered
from tests.support.moments import pass_time
from tests.support.sessions import Connect, together
from tests.support.sql import sql

NOTHING = RepairCounts(0, 0, 0)


def test_a_count_of_live_messages(found: Examine) -> None:
    channel_set(channel="tenant", max_size=10)
    enqueue_numbered(3, channel="tenant")
    enqueue("h", channel="tenant", delay=timedelta(hours=1))
    complete(dequeue())
    [held] = dequeue()
    assert found("counters") == {}
    assert repair() == NOTHING
    sql("UPDATE pgqueue_channel_size SET live = live + 7")
    assert found("counters")["count_wrong"].facts == {
        "channels": 1,
        "shown": [{"queue": "default", "channel": "tenant", "counted": 10, "live": 3}],
    }
    assert repair() == RepairCounts(counts=1, lease_floors=0, places=0)
    assert found("counters") == {}
    complete(held)
    assert found("counters") == {}


def test_leases_below_the_floor_are_not_counted_and_the_limit_does_not_hold(found: Examine) -> None:
    channel_set(channel="tenant", max_concurrency=2)
    enqueue_numbered(6, channel="tenant")
    dequeue(limit=2)
    sql("UPDATE pgqueue_lane SET lease_floor = clock_timestamp() + interval '1 hour', parked_until = NULL")
    finding = found("counters")["lease_floor_wrong"]
    assert finding.facts == {"channels": 1, "shown": [{"queue": "default", "channel": "tenant"}]}
    assert repair().lease_floors == 1
    assert found("counters") == {}
    assert dequeue(limit=6) == []


def test_more_leases_than_the_limit_allows(found: Examine) -> None:
    channel_set(channel="tenant", max_concurrency=2)
    enqueue_numbered(3, channel="tenant")
    held = dequeue(limit=3)
    assert len(held) == 2
    sql("UPDATE pgqueue_message SET status = 2, leased_at = clock_timestamp() WHERE status = 1")
    assert "tenant (3 of 2)" in found("counters")["over_limit"].problem
    complete(held)
    assert "over_limit" not in found("counters")


def test_leases_that_the_gate_of_their_queue_does_not_list(found: Examine) -> None:
    queue_set(max_concurrency=2)
    pass_time(minutes=11)
    enqueue_numbered(6)
    assert len(dequeue(limit=6)) == 2
    assert found("counters") == {}
    sql("UPDATE pgqueue_gate SET held = held[1:1]")
    assert found("counters")["lease_list_wrong"].facts == {"queues": ["default"]}
    assert repair().lease_floors == 1
    assert found("counters") == {}
    assert dequeue(limit=6) == []


def test_more_leases_than_the_limit_of_the_queue_allows(found: Examine) -> None:
    queue_set(max_concurrency=2)
    pass_time(minutes=11)
    enqueue_numbered(3)
    held = dequeue(limit=3)
    sql("UPDATE pgqueue_message SET status = 2, leased_at = clock_timestamp() WHERE status = 1")
    assert "default (3 of 2)" in found("counters")["queue_over_limit"].problem
    complete(held)
    assert "queue_over_limit" not in found("counters")


def test_a_channel_without_a_place_in_the_line_is_never_served(found: Examine) -> None:
    enqueue_numbered(3, channel="default")
    sql("SELECT pgqueue_tick()")
    sql("DELETE FROM pgqueue_lane")
    assert found("counters") == {}, "for a moment that may be so"
    pass_time(minutes=1)
    assert dequeue() == []
    assert found("counters")["out_of_line"].facts["shown"] == [{"queue": "default", "channel": "default"}]
    assert repair() == RepairCounts(0, 0, 1)
    assert len(dequeue(limit=5)) == 3
    assert found("counters") == {}


def test_a_message_below_the_floor_of_its_channel_is_never_found(found: Examine) -> None:
    enqueue_numbered(3, channel="default")
    sql("SELECT pgqueue_tick()")
    pass_time(minutes=1)
    sql("UPDATE pgqueue_lane SET floor_rank = 32767, floor_at = 'infinity'")
    assert list(found("counters")) == ["out_of_line"]
    repair()
    assert len(dequeue(limit=5)) == 3


def test_a_channel_that_waits_for_a_limit_that_is_not_reached(found: Examine) -> None:
    channel_set(channel="tenant", max_concurrency=1)
    sql("UPDATE pgqueue_channel SET changed_at = NULL")
    enqueue_numbered(3, channel="tenant")
    held = dequeue(lease=timedelta(hours=1))
    pass_time(minutes=1)
    assert dequeue() == []
    assert found("counters") == {}
    complete(held)
    sql("DELETE FROM pgqueue_arrival")
    assert list(found("counters")) == ["parked"]
    assert repair() == RepairCounts(0, 0, 1)
    assert len(dequeue()) == 1
    assert found("counters") == {}


def test_a_message_that_waits_for_one_of_its_key_that_was_deleted_by_hand(found: Examine) -> None:
    first, second, third, other = (enqueue("h", order_key=key).id for key in ("k", "k", "k", "other"))
    # A lease that the minute does not end: else a dequeue on a slow machine brings the other message back.
    assert [delivery.id for delivery in dequeue(limit=5, lease=timedelta(hours=1))] == [first, other]
    pass_time(minutes=1)
    assert found("counters") == {}
    assert repair() == NOTHING
    sql("DELETE FROM pgqueue_message WHERE id = %s", first)
    assert dequeue(limit=5) == []
    finding = found("counters")["order_key_unreleased"]
    assert (finding.severity.word, finding.facts["messages"]) == ("critical", 1)
    assert finding.facts["shown"] == [{"queue": "default", "channel": "default"}]
    assert [reason.code for reason in explain_message(second)][:1] == ["order_key_unreleased"]
    assert [reason.code for reason in explain_message(third)][:1] == ["waits_for_order_key"]
    assert repair() == RepairCounts(0, 0, 1)
    assert found("counters") == {}
    assert [delivery.id for delivery in dequeue(limit=5)] == [second]


def test_a_queue_at_work_is_found_to_be_right_at_every_moment(connect: Connect) -> None:
    """Each look is one snapshot, in which all that the queue keeps agrees."""
    channel_set(channel="sized", max_size=1000)
    channel_set(channel="limited", max_concurrency=2)
    sessions = [connect(autocommit=True) for _ in range(3)]
    looks = []

    def enqueues() -> None:
        for place in range(300):
            channel = ("default", "sized", "limited")[place % 3]
            sessions[0].execute("SELECT pgqueue_enqueue('h', p_channel => %s)", [channel])

    def works() -> None:
        for _ in range(300):
            sessions[1].execute(
                "SELECT pgqueue_complete(array_agg(d.id), array_agg(d.token)) FROM pgqueue_dequeue(p_limit => 2) AS d"
                " HAVING count(*) > 0"
            )

    def looks_at_it() -> None:
        for _ in range(100):
            looks.extend(sessions[2].execute("SELECT channel, problem FROM pgqueue_find_unreachable()").fetchall())
            looks.extend(sessions[2].execute("SELECT * FROM pgqueue_repair()").fetchall())

    together(enqueues, works, looks_at_it)
    assert {look for look in looks if look != (0, 0, 0)} == set()
