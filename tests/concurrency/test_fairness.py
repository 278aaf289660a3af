"""C6: round robin by weight.

The bound, as in docs/explanation/fairness.md: a new message of a channel that had none is delivered after at
most one turn of every other channel of its queue that has ready messages and may run. With dequeue(limit=1)
that is the sum of their weights in messages; with a limit that is not smaller than the number of these
channels it is the second call. How many messages they hold does not matter, nor how these were enqueued.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.support.sessions import Session
from tests.support.verbs import dequeue, drain, enqueue, fill, make_channel, settle, tick


def messages_before(session: Session, name: str, limit: int) -> tuple[int, int]:
    """Calls, and messages of other channels, before the first message of the channel."""
    before = 0
    for call in range(1, 1000):
        leases = dequeue(session, limit)
        names = [lease.channel for lease in leases]
        if name in names:
            return call, before + names.index(name)
        assert leases, f"nothing of {name}"
        before += len(leases)
    raise AssertionError(f"nothing of {name}")


@pytest.mark.parametrize("limit", [1, 10])
@pytest.mark.parametrize("weight", [1, 4])
def test_a_new_message_is_delivered_within_one_round(session: Session, limit: int, weight: int) -> None:
    make_channel(session, "a", weight=weight)
    make_channel(session, "b")
    fill(session, "a", 5000)
    dequeue(session, 3)
    for _ in range(3):
        enqueue(session, "b")

        calls, before = messages_before(session, "b", limit)

        assert before <= max(weight, limit)
        assert calls <= max(weight + 1 if limit == 1 else 2, 2)


def test_a_backlog_of_single_messages_delays_no_channel(session: Session) -> None:
    """No session dequeued for a while: every statement has left an arrival of its own."""
    make_channel(session, "a")
    make_channel(session, "b")
    session.execute("SELECT count(pgqueue_enqueue('work', '{}', 'a')) FROM generate_series(1, 3000)")
    enqueue(session, "b")

    calls, before = messages_before(session, "b", 1)

    assert (calls, before) <= (2, 1)


FAVOURS: dict[str, dict[str, Any]] = {
    "priority": {"priority": 1},
    "an old dequeue_at": {"dequeue_at": "2020-01-01"},
    "both": {"priority": 32767, "dequeue_at": "2020-01-01"},
}


@pytest.mark.parametrize("favour", FAVOURS)
@pytest.mark.parametrize("ticks", [False, True])
def test_a_message_cannot_put_its_channel_before_others(session: Session, favour: str, ticks: bool) -> None:
    """Priority and dequeue_at order the messages of one channel; the line orders the channels."""
    make_channel(session, "a")
    make_channel(session, "b")
    waiting = enqueue(session, "b")
    for calls in range(1, 10):
        enqueue(session, "a", **FAVOURS[favour])
        if ticks and calls % 2:
            tick(session)
        [lease] = dequeue(session)
        settle(session, [lease])
        if lease.id == waiting:
            break

    assert calls <= 2


@pytest.mark.parametrize("favour", FAVOURS)
@pytest.mark.parametrize("limit", [1, 3, 10])
def test_favoured_messages_of_some_channels_leave_the_others_their_turns(
    session: Session, favour: str, limit: int
) -> None:
    """Messages come one by one, as many as are taken."""
    loud, quiet = ["a", "b", "c"], ["d", "e"]
    for name in loud + quiet:
        make_channel(session, name)
    waiting = {enqueue(session, name) for name in quiet}
    served: Counter[str] = Counter()
    while waiting:
        for place in range(limit):
            enqueue(session, loud[place % len(loud)], **FAVOURS[favour])
        leases = dequeue(session, limit)
        settle(session, leases)
        served += Counter(lease.channel for lease in leases)
        waiting -= {lease.id for lease in leases}
        assert all(served[name] <= 2 * limit for name in loud), served


@pytest.mark.parametrize("limit", [1, 10])
def test_a_few_single_messages_of_one_channel_delay_no_other(session: Session, limit: int) -> None:
    """Fewer than stand in line as lanes at once: each statement has left an arrival of its own."""
    make_channel(session, "a")
    make_channel(session, "b")
    for _ in range(15):
        enqueue(session, "a", priority=1)
    enqueue(session, "b")

    calls, before = messages_before(session, "b", limit)

    assert (calls, before) <= (2 if limit == 1 else 1, limit)


def test_a_batch_takes_the_share_of_one_channel_after_the_other(session: Session) -> None:
    for name in ("a", "b"):
        make_channel(session, name)
    first, second, third = (enqueue(session, "a", priority=priority) for priority in (1, 3, 2))
    other = enqueue(session, "b")

    assert [lease.id for lease in dequeue(session, 10)] == [second, third, first, other]


def test_a_backlog_in_another_queue_delays_no_message(session: Session) -> None:
    make_channel(session, "a", "other")
    make_channel(session, "b")
    session.execute("SELECT count(pgqueue_enqueue('work', '{}', 'a', 'other')) FROM generate_series(1, 1000)")
    enqueue(session, "b")

    assert messages_before(session, "b", 1) == (1, 0)


@pytest.mark.parametrize(("channels", "calls"), [(3, 40), (20, 3000)])
def test_channels_that_another_dequeue_holds_are_all_served(
    session: Session, business: Session, channels: int, calls: int
) -> None:
    """Their lanes keep their places meanwhile: the order of the line would serve the first until it is empty."""
    names = [f"channel{place:02}" for place in range(channels)]
    for name in names:
        make_channel(session, name)
        fill(session, name, calls)
    assert len(dequeue(business, channels)) == channels

    served = {lease.channel for _ in range(calls) for lease in dequeue(session)}

    assert served == set(names)


@pytest.mark.parametrize("weight", [1, 100])
def test_a_message_that_was_enqueued_while_its_channel_still_stood_in_line(
    session: Session, business: Session, weight: int
) -> None:
    """When it is committed, its channel has lost the place."""
    make_channel(session, "a", weight=weight)
    make_channel(session, "b")
    fill(session, "b", 1)
    tick(session)
    enqueue(business, "b")
    assert len(drain(session)) == 1
    fill(session, "a", 5000)
    dequeue(session, 1)
    business.commit()

    _, before = messages_before(session, "b", 1)

    # Without a tick, such arrivals are folded once in eight turns.
    assert before <= 8 + weight
