"""The ticket of a run: exactly one thread has the last word on its messages."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from django_pgqueue.worker.board import Board
from django_pgqueue.worker.interruption import RunTicket
from tests.support.deliveries import DELIVERY


def make(board: Board, count: int = 1, timeout: float = 10.0) -> RunTicket:
    deliveries = [replace(DELIVERY, id=number) for number in range(1, count + 1)]
    return RunTicket(board, deliveries, started_at=time.monotonic(), timeout=timeout)


def test_of_many_threads_one_gets_it() -> None:
    tickets = [make(Board()) for _ in range(200)]
    with ThreadPoolExecutor(4) as threads:
        taken = [list(threads.map(lambda _, ticket=ticket: ticket.take(), range(4))) for ticket in tickets]
    assert Counter(map(sum, taken)) == {1: 200}


def test_its_messages_run_until_it_is_taken() -> None:
    board = Board()
    ticket = make(board)
    assert (len(board.running()), ticket.is_free) == (1, True)
    assert ticket.take()
    assert (len(board.running()), len(board.begun()), ticket.is_free) == (0, 1, False)


def test_the_ticket_of_an_ended_run_does_not_end_the_next_one() -> None:
    board = Board()
    ended = make(board)
    assert ended.take()
    board.settle(ended.deliveries)
    make(board)
    assert not ended.take()
    assert len(board.running()) == 1


@pytest.mark.parametrize(("count", "calls"), [(1, 1), (2, 3)])
def test_a_batch_may_run_once_more_one_by_one(count: int, calls: int) -> None:
    board = Board()
    ticket = make(board, count, timeout=100.0)
    assert {entry.deadline - ticket.started_at for entry in board.running()} == {calls * 100.0}
