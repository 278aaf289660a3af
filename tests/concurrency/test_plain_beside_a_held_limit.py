"""A plain message waits for no limit of the messages before it, also while another transaction holds that limit.

The tests know the verbs alone: what is enqueued, dequeued and completed.
"""

from __future__ import annotations

import pytest

from tests.support.sessions import Session, one
from tests.support.verbs import dequeue, enqueue_many, limit_set, make_channel, settle, tick

NEIGHBOURS = 100


def send(session: Session, channel: str, handler: str) -> int:
    return int(one(session, "SELECT id FROM pgqueue_enqueue(%s, '{}', %s)", handler, channel))


@pytest.mark.parametrize("size", [1, 10])
@pytest.mark.xfail(
    strict=True,
    reason="While another transaction holds a limit, a turn sets one or two of its messages aside, so a plain message "
    "behind 300 of them waits for many rounds. To set all aside at once would leave them to the tick when the limit is "
    "only busy.",
)
def test_a_plain_message_behind_those_of_a_held_limit_comes_within_one_round(
    session: Session, business: Session, size: int
) -> None:
    limit_set(session, "stripe", max_concurrency=5_000, handlers=["limited"])
    make_channel(session, "holder")
    make_channel(session, "mixed")
    names = [f"neighbour{place}" for place in range(NEIGHBOURS)]
    for name in names:
        make_channel(session, name)
    send(session, "holder", "limited")
    assert [lease.channel for lease in dequeue(business)] == ["holder"]
    # All stand in the line, and have had a turn of one message.
    enqueue_many(session, [*names, "mixed"] + names * 4)
    tick(session, 3)
    for _ in range(NEIGHBOURS + 1):
        settle(session, dequeue(session))
    for _ in range(300):
        send(session, "mixed", "limited")
    plain = send(session, "mixed", "plain")

    before = 0
    while before <= NEIGHBOURS + size:
        leases = dequeue(session, size)
        if plain in [lease.id for lease in leases]:
            return
        settle(session, leases)
        before += len(leases)

    pytest.fail(f"{before} messages of {NEIGHBOURS} other channels came before it")
