"""The board: the leases that a process holds and the messages that it has begun; another process reads it."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from django_pgqueue import Delivery
from django_pgqueue.worker import board as module
from django_pgqueue.worker.board import Board, ShownLease
from django_pgqueue.worker.numbers import MOST_PLACES
from tests.support.deliveries import DELIVERY
from tests.support.paths import REPOSITORY

WRITER = """
import os, signal, sys
from types import SimpleNamespace
from django_pgqueue.worker.board import Board
board = Board(int(sys.argv[1]))
settled, ended, *running = [SimpleNamespace(id=number) for number in range(1, 5)]
held = SimpleNamespace(id=9, token=SimpleNamespace(int=2**127 + 1))
board.hold([held], 5.0)
board.begin([settled, ended])
board.begin(running, deadline=1e9)
board.end([settled, ended])
board.settle([settled])
os.kill(os.getpid(), signal.SIGKILL)
"""


def messages(*ids: int) -> list[Any]:
    return [SimpleNamespace(id=message) for message in ids]


def test_messages_that_a_killed_process_had_begun_are_on_the_board_until_they_are_settled() -> None:
    board = Board.shared()
    before = time.monotonic()
    command = [sys.executable, "-c", WRITER, str(board.fd)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    assert subprocess.run(command, pass_fds=[board.fd], env=environment).returncode == -9
    running, begun, leases = sorted(board.running()), sorted(board.begun()), board.leases()
    board.close()
    assert leases == [(9, 2**127 + 1, 5.0)]
    assert [(entry.id, entry.deadline) for entry in running] == [(3, 1e9), (4, 1e9)]
    assert [entry.id for entry in begun] == [2, 3, 4]
    assert all(before <= entry.started_at <= time.monotonic() for entry in begun)
    assert before <= begun[0].ended_at <= time.monotonic()


def test_places_are_used_again_and_a_full_board_takes_no_more() -> None:
    board = Board()
    shown = messages(*range(1, MOST_PLACES + 10))
    board.begin(shown)
    assert len(board.running()) == MOST_PLACES
    assert board.free == 0
    board.end(shown)
    assert board.free == 0
    assert board.running() == []
    board.settle(shown[5:])
    assert {entry.id for entry in board.begun()} == {1, 2, 3, 4, 5}
    again = messages(9)
    board.begin(again)
    assert [entry.id for entry in board.running()] == [9]


def test_a_message_that_could_not_be_settled_stays_for_its_supervisor() -> None:
    board = Board()
    lost = messages(7)
    board.begin(lost)
    board.end(lost)
    board.give_up(lost)
    board.settle(lost)
    [entry] = board.begun()
    assert (entry.id, entry.ended_at) == (7, math.inf)


def test_a_settlement_that_is_given_up_leaves_what_had_begun_and_no_lease() -> None:
    board = Board()
    begun, waiting = [SimpleNamespace(id=message, token=None) for message in (1, 2)]
    board.hold([begun, waiting], 5.0)
    board.begin([begun])
    free = board.free
    board.give_up([begun, waiting])
    assert board.leases() == []
    assert [entry.id for entry in board.begun()] == [1]
    assert board.free == free + 1


def test_a_message_keeps_its_place_from_the_lease_to_the_settlement() -> None:
    board = Board()
    message: Any = SimpleNamespace(id=3, token=None)
    board.hold([message], 5.0)
    free = board.free
    board.begin([message], deadline=9.0)
    assert board.free == free
    assert board.leases() == [(3, 0, 5.0)]
    assert [(entry.id, entry.deadline) for entry in board.running()] == [(3, 9.0)]
    board.settle([message])
    assert (board.leases(), board.begun(), board.free) == ([], [], free + 1)


def test_a_message_without_a_time_limit_has_none() -> None:
    board = Board()
    shown = messages(4)
    board.begin(shown)
    [entry] = board.running()
    assert (entry.id, entry.deadline) == (4, math.inf)


def test_it_works_without_memory_that_has_a_name_of_its_own() -> None:
    fd = module._temporary_file()
    os.ftruncate(fd, module.BOARD_BYTES)
    board = Board(fd)
    board.begin(messages(5))
    assert [entry.id for entry in Board(fd).running()] == [5]
    board.close()


FIRST = replace(DELIVERY, id=1, token=uuid4())
SECOND = replace(DELIVERY, id=2, token=uuid4())


@pytest.fixture
def board() -> Board:
    return Board()


def lease(delivery: Delivery, since: float) -> ShownLease:
    assert delivery.token is not None
    return ShownLease(delivery.id, delivery.token.int, since)


def pairs(*deliveries: Delivery) -> list[tuple[int, int]]:
    return [lease(delivery, 0.0)[:2] for delivery in deliveries]


def test_leases_are_on_the_board_from_the_hold_to_the_release(board: Board) -> None:
    board.hold([FIRST, SECOND], 10.0)
    assert board.leases() == [lease(FIRST, 10.0), lease(SECOND, 10.0)]
    assert board.settle([FIRST, FIRST]) == [FIRST]
    assert len(board) == 1
    assert board.leases() == [lease(SECOND, 10.0)]
    assert board.begun() == []


def test_a_lease_that_was_released_before_the_heartbeat_missed_it_is_not_lost(board: Board) -> None:
    board.hold([FIRST, SECOND], 10.0)
    board.settle([FIRST])
    assert board.lost(pairs(FIRST, SECOND)) == [SECOND]
    assert len(board) == 0
    assert board.leases() == []


def test_a_lease_that_is_being_settled_when_the_heartbeat_misses_it_is_not_lost(board: Board) -> None:
    board.hold([FIRST], 10.0)
    board.settling([FIRST])
    assert board.lost(pairs(FIRST)) == []
    board.settling([FIRST], now=False)
    assert board.lost(pairs(FIRST)) == [FIRST]


def test_another_lease_of_the_same_message_is_another_lease(board: Board) -> None:
    again = replace(FIRST, token=uuid4())
    board.hold([again], 10.0)
    assert (board.lost(pairs(FIRST)), board.known(pairs(FIRST))) == ([], [])
    assert board.known(pairs(again)) == [again]


def test_a_worker_that_gets_a_message_again_had_lost_it(board: Board) -> None:
    again = replace(FIRST, token=uuid4())
    board.hold([FIRST], 10.0)
    assert board.hold([again], 20.0) == [FIRST]
    assert board.leases() == [lease(again, 20.0)]
    assert board.settle([FIRST]) == []
    assert board.settle([again]) == [again]
    assert board.leases() == []


def test_a_message_that_comes_back_before_its_settlement_is_noted_is_not_lost(board: Board) -> None:
    again = replace(FIRST, token=uuid4())
    board.hold([FIRST], 10.0)
    board.settling([FIRST])
    assert board.hold([again], 20.0) == []
    assert board.settle([FIRST]) == []
    assert board.leases() == [lease(again, 20.0)]
    # The new lease is not being settled.
    assert board.lost(pairs(again)) == [again]
    assert board.leases() == []


def test_a_message_that_runs_after_its_lease_is_lost_has_begun_and_is_not_extended(board: Board) -> None:
    board.hold([FIRST, SECOND], 10.0)
    board.begin([FIRST])
    board.lost(pairs(FIRST))
    assert board.leases() == [lease(SECOND, 10.0)]
    assert [entry.id for entry in board.running()] == [1]
    board.settle([FIRST])
    assert board.begun() == []
