"""The requests of a child to its supervisor about its leases, and its use of the answers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from django_pgqueue import Delivery
from django_pgqueue.worker.link.pipe import LeaseList, Link
from django_pgqueue.worker.link.remote_keeper import RemoteKeeper

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
FIRST = Delivery(
    id=1, queue="default", channel="default", handler="test", payload=None, body=None, headers={}, priority=0,
    attempt=1, max_attempts=5, token=uuid4(), lease_expires_at=EPOCH, state=None, created_at=EPOCH, dequeue_at=EPOCH,
)  # fmt: skip
SECOND = replace(FIRST, id=2, token=uuid4())
LEASE = timedelta(seconds=15)


class Child:
    """A keeper, the supervisor's end of its link, and what the keeper has called back."""

    def __init__(self) -> None:
        self.supervisor, fd = Link.pair()
        self.link = Link(fd)
        self.lost: list[Delivery] = []
        self.cancelled: list[Delivery] = []
        self.keeper = RemoteKeeper(self.link, LEASE, on_lost=self.lost.extend, on_cancelled=self.cancelled.extend)

    def said(self) -> list[tuple[object, ...]]:
        """All that the supervisor has heard. The child is gone after that."""
        self.link.close()
        return list(iter(self.supervisor.receive, None))


@pytest.fixture
def child() -> Iterator[Child]:
    child = Child()
    yield child
    child.supervisor.close()


def test_leases_are_sent_and_released_by_id_and_token(child: Child) -> None:
    child.keeper.hold([FIRST, SECOND], 10.0)
    assert child.keeper.release([FIRST, FIRST]) == [FIRST]
    assert len(child.keeper) == 1
    assert child.said() == [("hold", LeaseList.of([FIRST, SECOND]), 10.0), ("release", LeaseList.of([FIRST]))]


def test_a_lease_that_was_released_before_the_heartbeat_missed_it_is_not_lost(child: Child) -> None:
    child.keeper.hold([FIRST, SECOND], 10.0)
    child.keeper.release([FIRST])
    child.keeper.lost(LeaseList.of([FIRST, SECOND]))
    assert child.lost == [SECOND]
    assert len(child.keeper) == 0


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
    assert child.keeper.release([FIRST]) == []
    assert child.keeper.release([again]) == [again]


def test_the_settling_is_sent_only_for_leases_that_are_heartbeated(child: Child) -> None:
    now = time.monotonic()
    child.keeper.hold([FIRST], now)
    child.keeper.hold([SECOND], now - LEASE.total_seconds() / 3)
    child.keeper.settling([FIRST, SECOND])
    assert child.said()[2:] == [("settling", LeaseList.of([SECOND]), True)]


def test_a_supervisor_that_is_gone_makes_no_trouble(child: Child) -> None:
    child.supervisor.close()
    child.keeper.hold([FIRST], 10.0)
    assert child.keeper.release([FIRST]) == [FIRST]
    assert child.link.receive() is None
