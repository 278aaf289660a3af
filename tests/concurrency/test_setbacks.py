"""Floors hide nothing after a clock, a transaction id or a sequence went back."""

from __future__ import annotations

import pytest

from tests.support.sessions import Session, one
from tests.support.verbs import dequeue, drain, enqueue, enqueue_many, fill, make_channel, settle, tick


def test_a_clock_that_was_set_back(session: Session) -> None:
    """Times of the last hour are in the future then: limits go on as if they had not been written."""
    make_channel(session, "full", max_concurrency=2)
    make_channel(session, "slow", release_interval="5 ms")
    make_channel(session, "b", max_concurrency=2)
    for name in ("full", "slow", "b"):
        fill(session, name, 4)
    settle(session, dequeue(session, 3))
    tick(session, 3)
    session.execute(
        "UPDATE pgqueue_lane SET lease_floor = clock_timestamp() + interval '1 hour',"
        " next_at = clock_timestamp() + interval '1 hour'"
    )
    session.execute("UPDATE pgqueue_floor SET ticked_at = ticked_at + interval '1 hour'")

    taken = []
    for _ in range(60):
        taken += drain(session, 1)
        tick(session)
        session.execute("SELECT pg_sleep(0.002)")

    assert len(taken) == 9


@pytest.mark.parametrize("column", ["ticked_at", "parked_from"])
def test_lanes_that_are_parked_after_the_clock_was_set_back(session: Session, column: str) -> None:
    """A floor of the future would hide them until the clock has come there."""
    make_channel(session, "slow", release_interval="5 ms")
    session.execute(f"UPDATE pgqueue_floor SET {column} = clock_timestamp() + interval '1 hour'")
    tick(session)
    fill(session, "slow", 3)

    taken = []
    for _ in range(20):
        taken += dequeue(session, 1)
        session.execute("SELECT pg_sleep(0.005)")

    assert len(taken) == 3
    floor = "SELECT parked_from < clock_timestamp() FROM pgqueue_floor ORDER BY id DESC LIMIT 1"
    assert one(session, floor)


def test_a_restored_dump_works_in_a_cluster_with_smaller_transaction_ids(session: Session) -> None:
    """The floors come with the dump, and are far ahead of the xids of the new cluster."""
    make_channel(session, "a")
    tick(session)
    ahead = 10**15
    session.execute(
        "UPDATE pgqueue_floor SET arrival_xid = %s::text::xid8, next_xid = %s::text::xid8", [ahead, ahead + 10]
    )
    try:
        enqueue(session, "a")
        enqueue(session, "a")
        tick(session, 3)

        assert len(drain(session)) == 2
    finally:
        session.execute("UPDATE pgqueue_floor SET arrival_xid = '0', next_xid = '0', late_xids = '{}'")


def test_lanes_of_a_sequence_that_went_back(session: Session) -> None:
    """A crash takes up to 32 values back from the sequences of a database that was made from a template."""
    for name in "ab":
        make_channel(session, name)
    enqueue_many(session, "ab" * 20)
    assert len(drain(session, 1)) == 40
    tick(session, 3)
    session.execute("SELECT setval('pgqueue_lane_seq', last_value - 32) FROM pgqueue_lane_seq")
    enqueue_many(session, "ab" * 10)
    tick(session, 3)

    assert len(drain(session)) == 20
