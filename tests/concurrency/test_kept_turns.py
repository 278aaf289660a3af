"""A channel whose message is set aside, because a shared limit is full, does not lose its turn."""

from __future__ import annotations

from collections import Counter

import pytest

from django_pgqueue.models import Message
from tests.support.sessions import Session, one
from tests.support.verbs import dequeue, enqueue, limit_set, make_channel


@pytest.fixture
def full(session: Session) -> None:
    """A limit of the handler work, whose only place is taken."""
    make_channel(session, "holder")
    limit_set(session, "stripe", max_concurrency=1, handlers=["work"])
    enqueue(session, "holder")
    assert [lease.channel for lease in dequeue(session)] == ["holder"]


def plain(session: Session, channel: str) -> int:
    """Enqueue a message of a handler that has no limit."""
    return int(one(session, "SELECT id FROM pgqueue_enqueue('other', '{}', %s)", channel))


def served(session: Session, count: int, limit: int = 1) -> list[str]:
    """Return the channels of so many messages. A call that has set messages aside for long returns an empty answer."""
    found: list[str] = []
    for _ in range(200):
        found += [lease.channel for lease in dequeue(session, min(limit, count - len(found)))]
        if len(found) == count:
            break
    return found


def shares(session: Session, limit: int, weight: int) -> Counter[str]:
    """Serve 54 messages of three channels. Every other message of channel a is set aside."""
    for name in "abc":
        make_channel(session, name, weight=weight)
    for place in range(30):
        # Each one is cheaper than those before it, so that none is set aside with them.
        enqueue(session, "a", cost=100 - place)
        for name in "abc":
            plain(session, name)
    return Counter(served(session, 54, limit))


def order(session: Session) -> list[str]:
    """Serve four channels, of which the first in the line has a long row of messages that are set aside."""
    for name in "abcd":
        make_channel(session, name)
    for name in [*"bcd", *"bcd"]:
        plain(session, name)
    assert served(session, 3) == [*"bcd"]
    for place in range(40):
        enqueue(session, "a", cost=100 - place)
    plain(session, "a")
    return served(session, 4)


@pytest.mark.parametrize(("limit", "weight"), [(1, 1), (1, 3), (6, 1)])
def test_equal_channels_get_equal_shares(session: Session, full: None, limit: int, weight: int) -> None:
    assert shares(session, limit, weight) == {name: pytest.approx(18, abs=weight) for name in "abc"}


def test_a_long_row_of_such_messages_does_not_delay_the_others(session: Session, full: None) -> None:
    assert order(session) == [*"bcd", "a"]


def test_a_channel_that_another_dequeue_holds_is_left_to_that_one(
    session: Session, business: Session, full: None
) -> None:
    make_channel(session, "a")
    first = plain(session, "a")
    limited = enqueue(session, "a")
    last = plain(session, "a")
    assert [lease.id for lease in dequeue(business)] == [first]

    # A session of the tests that waits for a lock fails.
    assert served(session, 1) == ["a"]
    assert one(session, "SELECT status FROM pgqueue_message WHERE id = %s", last) == Message.Status.LEASED
    assert one(session, "SELECT waits_for IS NOT NULL FROM pgqueue_message WHERE id = %s", limited)
