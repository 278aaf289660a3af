"""The leases of a child, as its board shows them to its supervisor, and its use of the supervisor's answers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from django_pgqueue import Delivery
from django_pgqueue.worker.hold.board import Board, ShownLease
from django_pgqueue.worker.link.pipe import LeaseList
from django_pgqueue.worker.link.remote_keeper import RemoteKeeper

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
FIRST = Delivery(
    id=1, queue="default", channel="default", handler="test", payload=None, body=None, headers={}, priority=0,
    attempt=1, max_attempts=5, token=uuid4(), lease_expires_at=EPOCH, state=None, created_at=EPOCH, dequeue_at=EPOCH,
)  # fmt: skip
SECOND = replace(FIRST, id=2, token=uuid4())


class Child:
    """A keeper, its board, and what the keeper has called back."""

    def __init__(self) -> None:
        self.board = Board()
        self.lost: list[Delivery] = []
        self.cancelled: list[Delivery] = []
        self.keeper = RemoteKeeper(self.board, on_lost=self.lost.extend, on_cancelled=self.cancelled.extend)


@pytest.fixture
def child() -> Child:
    return Child()


def lease(delivery: Delivery, since: float) -> ShownLease:
    assert delivery.token is not None
    return ShownLease(delivery.id, delivery.token.int, since)


def test_leases_are_on_the_board_from_the_hold_to_the_release(child: Child) -> None:
    child.keeper.hold([FIRST, SECOND], 10.0)
    assert child.board.leases() == [lease(FIRST, 10.0), lease(SECOND, 10.0)]
    # A copy stands for the same lease.
    assert child.keeper.release([replace(FIRST), FIRST]) == [FIRST]
    assert len(child.keeper) == 1
    assert child.board.leases() == [lease(SECOND, 10.0)]
    assert child.board.begun() == []


def test_a_lease_that_was_released_before_the_heartbeat_missed_it_is_not_lost(child: Child) -> None:
    child.keeper.hold([FIRST, SECOND], 10.0)
    child.keeper.release([FIRST])
    child.keeper.lost(LeaseList.of([FIRST, SECOND]))
    assert child.lost == [SECOND]
    assert len(child.keeper) == 0
    assert child.board.leases() == []


def test_a_lease_that_is_being_settled_when_the_heartbeat_misses_it_is_not_lost(child: Child) -> None:
    child.keeper.hold([FIRST], 10.0)
    child.keeper.settling([FIRST])
    child.keeper.lost(LeaseList.of([FIRST]))
    assert child.lost == []
    child.keeper.settling([FIRST], now=False)
    child.keeper.lost(LeaseList.of([FIRST]))
    assert child.lost == [FIRST]


def test_another_lease_of_the_same_message_is_another_lease(child: Child) -> None:
    again = replace(FIRST, token=uuid4())
    child.keeper.hold([again], 10.0)
    child.keeper.lost(LeaseList.of([FIRST]))
    child.keeper.cancelled(LeaseList.of([FIRST]))
    assert (child.lost, child.cancelled) == ([], [])
    child.keeper.cancelled(LeaseList.of([again]))
    assert child.cancelled == [again]


def test_a_worker_that_gets_a_message_again_had_lost_it(child: Child) -> None:
    again = replace(FIRST, token=uuid4())
    child.keeper.hold([FIRST], 10.0)
    child.keeper.hold([again], 20.0)
    assert child.lost == [FIRST]
    assert child.board.leases() == [lease(again, 20.0)]
    assert child.keeper.release([FIRST]) == []
    assert child.keeper.release([again]) == [again]
    assert child.board.leases() == []


def test_a_message_that_comes_back_before_its_settlement_is_noted_is_not_lost(child: Child) -> None:
    again = replace(FIRST, token=uuid4())
    child.keeper.hold([FIRST], 10.0)
    child.keeper.settling([FIRST])
    child.keeper.hold([again], 20.0)
    assert child.lost == []
    assert child.keeper.release([FIRST]) == []
    assert child.board.leases() == [lease(again, 20.0)]
    # The new lease is not being settled.
    child.keeper.lost(LeaseList.of([again]))
    assert child.lost == [again]
    assert child.board.leases() == []


def test_a_message_that_runs_after_its_lease_is_lost_has_begun_and_is_not_extended(child: Child) -> None:
    child.keeper.hold([FIRST, SECOND], 10.0)
    child.board.begin([FIRST])
    child.keeper.lost(LeaseList.of([FIRST]))
    assert child.board.leases() == [lease(SECOND, 10.0)]
    assert [entry.id for entry in child.board.running()] == [1]
    child.board.settle([FIRST])
    assert child.board.begun() == []
