"""C2: an open business transaction that has enqueued delays no other. A lock wait is an error in these sessions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.sessions import Connect, Session, column, one
from tests.support.verbs import Lease, dequeue, drain, enqueue, enqueue_many, make_channel, retry, settle, tick

CHANNELS = ["a", "b", "limited", "slow"]


@pytest.fixture
def leased(session: Session, business: Session) -> list[Lease]:
    """Messages leased before the business transaction enqueued to all channels; more of them are ready."""
    make_channel(session, "a")
    make_channel(session, "b")
    make_channel(session, "limited", max_concurrency=10)
    make_channel(session, "slow", release_interval="1 ms", release_burst=10)
    enqueue_many(session, CHANNELS * 2)
    leases = dequeue(session, 4)
    assert sorted(lease.channel for lease in leases) == CHANNELS
    for name in CHANNELS:
        enqueue(business, name)
    enqueue_many(business, reversed(CHANNELS))
    return leases


VERBS: dict[str, Callable[[Session, list[Lease]], object]] = {
    "enqueue": lambda session, leases: [enqueue(session, name) for name in reversed(CHANNELS)],
    "enqueue_many": lambda session, leases: enqueue_many(session, reversed(CHANNELS)),
    "insert": lambda session, leases: session.execute(
        "INSERT INTO pgqueue_message (channel_id, handler) SELECT id, 'work' FROM pgqueue_channel ORDER BY name DESC"
    ),
    "dequeue": lambda session, leases: dequeue(session, 4),
    "pop": lambda session, leases: session.execute("SELECT * FROM pgqueue_pop('default', 4)"),
    "peek": lambda session, leases: session.execute("SELECT * FROM pgqueue_peek('default')"),
    "explain": lambda session, leases: session.execute(
        "SELECT code, sentence, facts FROM pgqueue_explain_channel('default', 'a') "
        "UNION ALL SELECT * FROM pgqueue_explain_message(%s)",
        [leases[0].id],
    ),
    "heartbeat": lambda session, leases: settle(session, leases, "heartbeat"),
    "complete": lambda session, leases: settle(session, leases),
    "defer": lambda session, leases: settle(session, leases, "defer"),
    "retry": lambda session, leases: retry(session, leases),
    "dead_letter": lambda session, leases: settle(session, leases, "dead_letter", ["refused"] * 4),
    "channel_purge": lambda session, leases: [
        one(session, "SELECT pgqueue_channel_purge('default', %s)", name) for name in CHANNELS
    ],
    "sweep": lambda session, leases: session.execute("SELECT * FROM pgqueue_sweep()"),
    "tick": lambda session, leases: tick(session, 3),
    "prune": lambda session, leases: session.execute("SELECT * FROM pgqueue_prune('30 days', '30 days')"),
    "metrics": lambda session, leases: session.execute("SELECT * FROM pgqueue_metrics()"),
    "channel_set": lambda session, leases: [make_channel(session, name, max_concurrency=20) for name in CHANNELS],
    "channel_pause": lambda session, leases: [
        session.execute("SELECT pgqueue_channel_pause('default', %s)", [name]) for name in "ab"
    ],
    "channel_resume": lambda session, leases: [
        session.execute("SELECT pgqueue_channel_resume('default', %s)", [name]) for name in "ab"
    ],
    "channel_release": lambda session, leases: session.execute("SELECT pgqueue_channel_release('default', 'b')"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_an_open_transaction_that_has_enqueued_delays_no_other(
    session: Session, other: Session, business: Session, leased: list[Lease], verb: str
) -> None:
    VERBS[verb](other, leased)

    business.commit()


def test_messages_that_were_ready_before_are_delivered_and_settled_during_an_open_transaction(
    session: Session, other: Session, business: Session, leased: list[Lease]
) -> None:
    assert len(drain(other)) == 4
    assert len(settle(other, leased)) == 4

    assert dequeue(other, 10) == []
    business.commit()
    assert len(drain(other)) == 8


def test_a_rolled_back_transaction_leaves_nothing(session: Session, business: Session, leased: list[Lease]) -> None:
    business.rollback()

    assert len(drain(session)) == 4
    assert one(session, "SELECT count(*) FROM pgqueue_message") == 4  # the leased ones


@pytest.mark.parametrize("verb", sorted(set(VERBS) - {"channel_release"}))
def test_an_open_transaction_that_has_settled_delays_no_call_on_other_messages(
    session: Session, other: Session, business: Session, leased: list[Lease], verb: str
) -> None:
    # C13: a handler's transaction holds its message, and only that.
    business.rollback()
    enqueue_many(session, CHANNELS)
    own, rest = leased[:1], leased[1:]
    settle(business, own)
    if verb in {"heartbeat", "complete", "defer", "retry", "dead_letter"}:
        if verb == "dead_letter":
            settle(other, rest, "dead_letter", ["refused"] * 3)
        else:
            VERBS[verb](other, rest)
    else:
        VERBS[verb](other, rest)

    business.commit()


@pytest.mark.parametrize("first_to_commit", [0, 1])
def test_two_transactions_that_enqueue_in_opposite_order_do_not_wait(
    session: Session, connect: Connect, first_to_commit: int
) -> None:
    make_channel(session, "a")
    make_channel(session, "b")
    options = "-c lock_timeout=500ms"
    pair = [connect(options=options), connect(options=options)]
    ids = [
        enqueue(pair[0], "a"),
        enqueue(pair[1], "b"),
        enqueue(pair[0], "b"),
        enqueue(pair[1], "a"),
        *enqueue_many(pair[0], "ab"),
        *enqueue_many(pair[1], "ba"),
    ]
    pair[first_to_commit].commit()
    assert len(drain(session)) == 4
    pair[1 - first_to_commit].commit()
    assert len(drain(session)) == 4
    assert sorted(column(session, "SELECT id FROM pgqueue_archived_message")) == sorted(ids)


def test_an_open_pop_does_not_hide_a_hot_channel(session: Session, business: Session, other: Session) -> None:
    make_channel(session, "hot")
    enqueue_many(session, ["hot"] * 50)
    dequeue(session, 1)  # the channel has a lane now
    business.execute("SELECT * FROM pgqueue_pop('default', 1)")  # and this transaction holds it

    taken = drain(session, 1) + drain(other, 5)

    assert len(taken) == 48
    business.rollback()
    assert len(drain(session)) == 1


def test_an_open_pop_does_not_hide_other_channels(session: Session, business: Session) -> None:
    # A dequeue folds the arrivals of all channels; an open transaction must not take them along.
    for name in "abcdefgh":
        make_channel(session, name)
    for name in "abcdefgh":
        enqueue_many(session, [name] * 3)
    business.execute("SELECT * FROM pgqueue_pop('default', 1)")

    assert len(drain(session)) == 23


def test_arrivals_of_a_held_channel_do_not_block_those_of_others(session: Session, business: Session) -> None:
    make_channel(session, "held", max_concurrency=100)
    make_channel(session, "free")
    enqueue_many(session, ["held"] * 3)
    dequeue(session, 1)
    business.execute("SELECT * FROM pgqueue_pop('default', 1)")
    for _ in range(120):
        enqueue(session, "held")

    enqueue(session, "free")

    assert [lease.channel for lease in drain(session)] == ["free"]
    business.commit()
    assert len(drain(session)) == 121
