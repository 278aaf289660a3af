"""Arrivals of the transaction that folds them: what they tell is not committed yet."""

from __future__ import annotations

from tests.support.sessions import Session
from tests.support.verbs import dequeue, drain, enqueue, fill, make_channel, settle


def stand_behind_another(session: Session) -> None:
    """Let all channels that have messages stand in line, behind one that can be given a hundred turns."""
    fill(session, "beside", 20)
    fold(session)


def fold(session: Session, times: int = 1) -> None:
    """Take messages of the channel at the head. One dequeue in eight folds the arrivals that can wait."""
    for _ in range(times):
        assert [lease.channel for lease in dequeue(session)] == ["beside"]


def test_a_settlement_wakes_its_channel_once_others_see_it(session: Session, business: Session) -> None:
    make_channel(session, "beside", weight=100)
    make_channel(session, "one", max_concurrency=1)
    enqueue(session, "one")
    leases = dequeue(session)
    second = enqueue(session, "one")
    stand_behind_another(session)
    settle(business, leases)
    fold(business, 8)
    # The first message is still under way here: this call parks the channel.
    assert second not in [lease.id for lease in dequeue(session, 5)]
    business.commit()
    assert second in [lease.id for lease in drain(session)]


def test_a_message_is_found_once_others_see_it(session: Session, business: Session) -> None:
    make_channel(session, "beside", weight=100)
    make_channel(session, "two")
    enqueue(session, "two")
    stand_behind_another(session)
    second = enqueue(business, "two")
    fold(business, 8)
    # Takes the first message, and parks the channel.
    assert second not in [lease.id for lease in drain(session)]
    business.commit()
    assert second in [lease.id for lease in drain(session)]
