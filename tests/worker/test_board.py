"""The board: what one process writes, another reads."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

from django_pgqueue.worker import board as module
from django_pgqueue.worker.board import PLACES, Board
from tests.worker.conftest import REPOSITORY

WRITER = """
import os, signal, sys
from types import SimpleNamespace
from django_pgqueue.worker.board import Board
board = Board(int(sys.argv[1]))
ended = board.begin([SimpleNamespace(id=1)])
board.begin([SimpleNamespace(id=2), SimpleNamespace(id=3)], deadline=1e9)
board.end(ended)
os.kill(os.getpid(), signal.SIGKILL)
"""


def messages(*ids: int) -> list[Any]:
    return [SimpleNamespace(id=message) for message in ids]


def test_what_a_killed_process_ran_is_on_the_board() -> None:
    board = Board.shared()
    before = time.monotonic()
    command = [sys.executable, "-c", WRITER, str(board.fd)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    assert subprocess.run(command, pass_fds=[board.fd], env=environment).returncode == -9
    running = sorted(board.running())
    board.close()
    assert [(entry.id, entry.deadline) for entry in running] == [(2, 1e9), (3, 1e9)]
    assert all(before <= entry.started_at <= time.monotonic() for entry in running)


def test_places_are_used_again_and_a_full_board_takes_no_more() -> None:
    board = Board()
    places = board.begin(messages(*range(1, PLACES + 10)))
    assert len(board.running()) == len(places) == PLACES
    assert board.begin(messages(1)) == []
    board.end(places[5:])
    assert {entry.id for entry in board.running()} == {1, 2, 3, 4, 5}
    [place] = board.begin(messages(9))
    assert place == places[-1]


def test_a_message_without_a_time_limit_has_none() -> None:
    board = Board()
    board.begin(messages(4))
    [(message, _, deadline)] = board.running()
    assert (message, deadline) == (4, math.inf)


def test_it_works_without_memory_that_has_a_name_of_its_own() -> None:
    fd = module._temporary_file()
    os.ftruncate(fd, module.SIZE)
    board = Board(fd)
    board.begin(messages(5))
    assert [entry.id for entry in Board(fd).running()] == [5]
    board.close()
