"""A batch whose messages have one and the same shared limit takes its places together, if there is room for all."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.sessions import Session, column, one
from tests.support.verbs import dequeue, enqueue, limit_set, make_channel, send, settle

TOGETHER = "SELECT pgqueue_take_alike(%s, clock_timestamp())"
PLACES = "SELECT message_id FROM pgqueue_place ORDER BY message_id"


@pytest.fixture(autouse=True)
def channel(session: Session) -> None:
    make_channel(session, "default")


def rolled_back(session: Session, ids: list[int]) -> bool:
    """Return whether the messages take their places together, and take them back."""
    session.execute("BEGIN")
    try:
        return bool(one(session, TOGETHER, ids))
    finally:
        session.execute("ROLLBACK")


@pytest.mark.parametrize("settings", [{"max_concurrency": 3}, {"max_cost": 3},
                                      {"release_interval": "200 ms", "release_burst": 3}])  # fmt: skip
def test_as_many_as_the_limit_has_room_for_go_together(session: Session, settings: dict[str, Any]) -> None:
    limit_set(session, "stripe", handlers=["work"], **settings)
    ids = [enqueue(session) for _ in range(4)]
    settle(session, dequeue(session))  # the limit has its meter now
    ids = [*ids[1:], enqueue(session)]
    session.execute("SELECT pg_sleep(0.3)")  # its bucket is full

    assert rolled_back(session, ids[:3])
    assert not rolled_back(session, ids)
    assert len(dequeue(session, 10)) == 3


def test_messages_with_other_limits_do_not_go_together(session: Session) -> None:
    limit_set(session, "stripe", max_concurrency=10, handlers=["work"])
    limit_set(session, "other", max_concurrency=10)
    alike = [enqueue(session), enqueue(session)]
    other = send(session, "default", limits=["other"])

    assert rolled_back(session, alike)
    assert not rolled_back(session, alike + other)
    assert {lease.id for lease in dequeue(session, 10)} == {*alike, *other}
    assert column(session, PLACES) == [*alike, *other, *other]


def test_a_batch_takes_a_place_for_each_limited_message_and_gives_them_back(session: Session) -> None:
    limit_set(session, "stripe", max_concurrency=20)
    limited = [*send(session, "default", 18)]
    enqueue(session, "default")

    leases = dequeue(session, 30)
    assert len(leases) == 19
    assert column(session, PLACES) == limited
    settle(session, leases)
    again = send(session, "default", 2)
    assert [lease.id for lease in dequeue(session, 30)] == again
    assert column(session, PLACES) == again, "free places are deleted together"


def test_a_batch_of_costs_is_charged(session: Session) -> None:
    limit_set(session, "stripe", release_interval="1 hour", release_burst=10)
    for cost in (2, 3, 4, 3):
        enqueue(session, "default", limits=["stripe"], cost=cost)

    assert len(dequeue(session, 3)) == 3
    assert dequeue(session, 3) == []
    assert round(one(session, "SELECT tokens FROM pgqueue_meter")) == 1
