"""The lease keeper: what it knows of the leases that the boards of worker processes show."""

from __future__ import annotations

import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from django_pgqueue import complete, dequeue, lease_release
from django_pgqueue.delivery import Delivery
from django_pgqueue.models import Message
from django_pgqueue.worker.board import Board
from django_pgqueue.worker.lease_keeper import HeldLease, LeaseKeeper
from django_pgqueue.worker.options import WorkerOptions
from django_pgqueue.worker.process import Child
from tests.support.messages import lease_messages
from tests.worker.conftest import make_runtime

LEASE = timedelta(seconds=15)


class Family:
    """A supervisor's keeper, its children, and the leases that it has called lost."""

    def __init__(self) -> None:
        self.children: list[Child] = []
        self.lost: list[HeldLease] = []
        shared = make_runtime(WorkerOptions(using="default", name="test", lease=LEASE))
        self.keeper = LeaseKeeper(shared, holders=lambda: self.children, on_lost=self.lost.extend, on_cancelled=print)

    def child(self, name: str) -> Child:
        child = cast(Child, SimpleNamespace(name=name, board=Board()))
        self.children.append(child)
        return child

    def held(self) -> list[tuple[str, int]]:
        """The leases that the keeper has after a look at the boards, by child."""
        return sorted((lease.worker, lease.id) for lease in self.keeper.since())


@pytest.fixture
def family() -> Family:
    return Family()


def deliveries(*ids: int) -> list[Any]:
    return [SimpleNamespace(id=message, token=SimpleNamespace(int=message << 64 | message)) for message in ids]


def expires(message: Delivery) -> Any:
    return Message.objects.get(id=message.id).lease_expires_at


def test_the_leases_of_all_children_are_extended_for_as_long_as_their_boards_show_them(family: Family) -> None:
    one, two = family.child("one"), family.child("two")
    first, second, third = deliveries(1, 2, 3)
    one.board.hold([first, second], 10.0)
    two.board.hold([third], 20.0)
    assert family.held() == [("one", 1), ("one", 2), ("two", 3)]
    assert {lease.token.int: since for lease, since in family.keeper.since().items()} == {
        1 << 64 | 1: 10.0, 2 << 64 | 2: 10.0, 3 << 64 | 3: 20.0,
    }  # fmt: skip
    one.board.begin([first])
    one.board.settle([first, second])
    assert family.held() == [("two", 3)]


def test_the_leases_of_a_child_that_has_ended_are_kept_until_they_are_reclaimed(family: Family) -> None:
    child = family.child("one")
    child.board.hold(deliveries(1, 2), 10.0)
    child.board.close()
    family.keeper.read(child, last=True)
    family.children.remove(child)
    assert family.held() == [("one", 1), ("one", 2)]
    family.keeper.release(family.keeper.held())
    assert family.held() == []
    # A thread that has an older list of the children brings nothing back.
    family.keeper.read(child)
    assert family.held() == []


def test_a_lease_that_ended_in_the_supervisor_stays_ended_while_the_board_shows_it(family: Family) -> None:
    child = family.child("one")
    first, second = deliveries(1, 2)
    child.board.hold([first, second], 10.0)
    family.keeper.since()
    family.keeper.release([lease for lease in family.keeper.held() if lease.id == 1])
    assert family.held() == [("one", 2)]
    # The child hears of it, and gets the message again by another lease.
    child.board.settle([first])
    [again] = deliveries(1)
    again.token.int += 1
    child.board.hold([again], 30.0)
    assert family.held() == [("one", 1), ("one", 2)]


@pytest.mark.usefixtures("queue")
def test_a_round_of_heartbeats_extends_what_the_boards_show_and_calls_the_rest_lost(family: Family) -> None:
    child = family.child("one")
    extended, lost, young = lease_messages(3)
    before = expires(extended), expires(young)
    long_ago = time.monotonic() - LEASE.total_seconds() / 2
    child.board.hold([extended, lost], long_ago)
    child.board.hold([young], time.monotonic())
    lease_release([lost.id])
    assert family.keeper.run_once() == 1
    assert expires(extended) > before[0]
    assert expires(young) == before[1]
    assert [lease.id for lease in family.lost] == [lost.id]
    # It is called lost once, although the child has not heard of it yet.
    assert family.keeper.run_once() == 0
    assert len(family.lost) == 1


@pytest.mark.usefixtures("queue")
def test_a_lease_is_extended_while_its_settlement_waits_and_is_not_lost_by_it(family: Family) -> None:
    """A settlement of many messages may wait for a lock that another transaction has on one of them."""
    child = family.child("one")
    [message] = lease_messages(1)
    before = expires(message)
    child.board.hold([message], time.monotonic() - LEASE.total_seconds() / 2)
    child.board.settling([message])
    assert family.keeper.run_once() == 1
    assert expires(message) > before
    complete(message)
    family.keeper._every = 0.0
    assert family.keeper.run_once() == 0
    assert child.board.lost([lease.pair for lease in family.lost]) == []


@pytest.mark.usefixtures("queue")
def test_an_old_lease_of_a_message_does_not_make_the_new_one_lost(family: Family) -> None:
    """A message that was taken from one child may be leased by another before the heartbeat misses the first lease."""
    one, two = family.child("one"), family.child("two")
    [old] = lease_messages(1)
    lease_release([old.id])
    [new] = dequeue()
    long_ago = time.monotonic() - LEASE.total_seconds()
    for first, second in ((one, two), (two, one)):
        first.board.hold([old], long_ago)
        second.board.hold([new], long_ago)
        family.lost.clear()
        assert family.keeper.run_once() == 1
        assert [(lease.id, lease.token) for lease in family.lost] == [(old.id, old.token)]
        first.board.settle([old])
        second.board.settle([new])
        family.keeper.since()
