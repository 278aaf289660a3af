"""Shared limits are exact for all workers, whatever channels and queues their messages belong to."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.sessions import Session
from tests.support.verbs import dequeue, enqueue, limit_set, make_channel, retry, send, settle, tick


@pytest.fixture
def channels(session: Session) -> list[str]:
    names = ["a", "b", "c"]
    for name in names:
        make_channel(session, name)
    return names


def test_leases_of_all_channels_count_together(session: Session, business: Session, channels: list[str]) -> None:
    limit_set(session, "stripe", max_concurrency=3)
    for name in channels:
        send(session, name, 5)

    held = [dequeue(session, 1), dequeue(business, 1)]
    business.commit()
    held.append(dequeue(session, 10))

    assert [len(leases) for leases in held] == [1, 1, 1]
    assert Counter(lease.channel for leases in held for lease in leases) == {"a": 1, "b": 1, "c": 1}
    settle(business, held[1])
    business.commit()
    assert len(dequeue(session, 10)) == 1


@pytest.mark.parametrize("verb", ["complete", "dead_letter", "retry"])
def test_each_end_of_a_lease_frees_its_place(session: Session, channels: list[str], verb: str) -> None:
    limit_set(session, "stripe", max_concurrency=1)
    ids = send(session, "a", 2)
    [lease] = dequeue(session)
    assert lease.id == ids[0]
    assert not dequeue(session)

    if verb == "retry":
        retry(session, [lease], delay="1 hour")
    else:
        settle(session, [lease], verb, *([["failed"]] if verb == "dead_letter" else []))

    assert [lease.id for lease in dequeue(session)] == [ids[1]]


def test_a_lease_that_expired_keeps_its_place_until_it_is_taken_back(session: Session, channels: list[str]) -> None:
    limit_set(session, "stripe", max_concurrency=1)
    send(session, "a", 2, backoff="1 hour")
    assert len(dequeue(session, lease="1 ms")) == 1

    session.execute("SELECT pg_sleep(0.01)")
    # The dequeue brings the expired lease back first, and it waits for its back-off then.
    assert len(dequeue(session, 10)) == 1


def test_a_rate_gives_tokens_to_all_channels_together(session: Session, channels: list[str]) -> None:
    limit_set(session, "stripe", release_interval="1 hour", release_burst=4)
    for name in channels:
        send(session, name, 4)

    assert Counter(lease.channel for _ in range(10) for lease in dequeue(session)) == {"a": 2, "b": 1, "c": 1}


def test_a_rate_counts_what_messages_cost(session: Session, channels: list[str]) -> None:
    limit_set(session, "stripe", release_interval="1 hour", release_burst=100)
    first = send(session, "a", cost=60)
    second = send(session, "b", cost=30)
    send(session, "c", cost=20)

    assert sorted(lease.id for _ in range(5) for lease in dequeue(session)) == first + second


def test_a_batch_of_costs_is_charged(session: Session, channels: list[str]) -> None:
    limit_set(session, "stripe", release_interval="1 hour", release_burst=10)
    for cost in (2, 3, 4, 3):
        send(session, "a", cost=cost)
    assert len(dequeue(session, 3)) == 3
    assert dequeue(session, 3) == []


def test_a_message_that_costs_more_than_the_burst_waits_for_a_full_bucket(
    session: Session, channels: list[str]
) -> None:
    limit_set(session, "stripe", release_interval="10 milliseconds", release_burst=5)
    [huge] = send(session, "a", cost=50)

    assert [lease.id for lease in dequeue(session)] == [huge]
    send(session, "b")
    assert not dequeue(session)
    # The debt of 45 is paid first.
    session.execute("SELECT pg_sleep(0.47)")
    assert len(dequeue(session)) == 1


def test_the_cost_in_flight_is_bounded(session: Session, channels: list[str]) -> None:
    limit_set(session, "stripe", max_cost=100)
    send(session, "a", cost=60)
    send(session, "b", cost=60)
    [huge] = send(session, "c", cost=500)

    [first] = [lease for _ in range(5) for lease in dequeue(session)]
    settle(session, [first])
    [second] = [lease for _ in range(5) for lease in dequeue(session)]
    settle(session, [second])
    [third] = [lease for _ in range(5) for lease in dequeue(session)]

    assert huge in {first.id, second.id, third.id}


def test_places_go_round_the_tenants_by_weight(session: Session, channels: list[str]) -> None:
    """Not to the one that came first: a thousand of its messages wait before the first of the others."""
    limit_set(session, "stripe", max_concurrency=2)
    make_channel(session, "c", weight=2)
    send(session, "a", 100)
    send(session, "b", 20)
    send(session, "c", 40)

    served: list[str] = []
    leases = dequeue(session, 2)
    for _ in range(40):
        served.extend(lease.channel for lease in leases)
        settle(session, leases)
        leases = dequeue(session, 2)

    counts = Counter(served[:40])
    assert counts["a"] == pytest.approx(10, abs=2)
    assert counts["b"] == pytest.approx(10, abs=2)
    assert counts["c"] == pytest.approx(20, abs=2)


def test_a_paused_tenant_keeps_no_place(session: Session, channels: list[str]) -> None:
    limit_set(session, "stripe", max_concurrency=1)
    send(session, "a", 5)
    send(session, "b", 3)
    session.execute("SELECT pgqueue_channel_pause('default', 'a')")

    for _ in range(3):
        leases = dequeue(session)
        assert [lease.channel for lease in leases] == ["b"]
        settle(session, leases)
    assert not dequeue(session)


def test_a_message_keeps_to_all_of_its_limits(session: Session, channels: list[str]) -> None:
    limit_set(session, "stripe", max_concurrency=2)
    limit_set(session, "openai", max_concurrency=1)
    send(session, "a", 3, ["stripe", "openai"])
    send(session, "b", 3, ["stripe"])

    taken = [lease.channel for _ in range(6) for lease in dequeue(session)]

    assert sorted(taken) == ["a", "b"]


def test_a_limit_that_comes_later_counts_the_leases_of_before(session: Session, channels: list[str]) -> None:
    limit_set(session, "stripe", release_interval="1 microsecond", release_burst=100)
    send(session, "a", 5)
    leases = dequeue(session, 3)
    assert len(leases) == 3

    limit_set(session, "stripe", max_concurrency=4)

    assert len(dequeue(session, 10)) == 1


def test_a_rolled_back_dequeue_leaves_no_place(session: Session, channels: list[str]) -> None:
    limit_set(session, "stripe", max_concurrency=1)
    send(session, "a", 2)
    session.execute("BEGIN")
    assert len(dequeue(session)) == 1
    session.execute("ROLLBACK")

    assert len(dequeue(session, 10)) == 1


def test_an_ordered_channel_waits_behind_a_message_whose_limit_is_full(session: Session, channels: list[str]) -> None:
    limit_set(session, "stripe", max_concurrency=1)
    make_channel(session, "strict", ordered=True)
    send(session, "a")
    [blocker] = dequeue(session)
    [first] = send(session, "strict")
    second = enqueue(session, "strict")

    assert not dequeue(session, 10)
    assert not dequeue(session, 10)
    settle(session, [blocker])
    [lease] = dequeue(session, 10)
    assert lease.id == first
    settle(session, [lease])
    assert [lease.id for lease in dequeue(session, 10)] == [second]


def test_a_message_that_is_set_aside_keeps_no_place_of_its_channel(session: Session, business: Session) -> None:
    make_channel(session, "a")
    make_channel(session, "one", max_concurrency=1)
    limit_set(session, "stripe", max_concurrency=5)
    send(session, "a")
    tick(session)
    send(session, "one", 2)
    enqueue(session, "one")
    tick(session, 3)
    # The open transaction holds the shared limit, so the first message of the channel "one" is set aside.
    assert [lease.channel for lease in dequeue(business, 1)] == ["a"]
    during = dequeue(session, 1)
    business.commit()

    taken = during + [lease for _ in range(20) for lease in [*dequeue(session, 10), *(tick(session) or ())]]

    assert len(taken) == 1
