"""The time between a producer's looks: short while few messages come, longer while looks are much of the work."""

from __future__ import annotations

import time

import pytest

from django_pgqueue.worker.looks import Looks, ServedQueues
from django_pgqueue.worker.numbers import (
    HANDLER_FIRST_SECONDS,
    LONGEST_REST_SECONDS,
    MANY_MESSAGES,
    REST_SECONDS,
    TIMES_OF_A_LOOK,
)
from django_pgqueue.worker.options import WorkerOptions


def make(processes: int = 1) -> Looks:
    options = WorkerOptions(using="default", processes=processes)
    return Looks(options, ServedQueues(options))


def rest_after(processes: int, found: int, took: float) -> float:
    """The seconds between two looks, after one that found so many messages and took so long."""
    looks, began = make(processes), time.monotonic() - took
    looks.set_rest(found, 1000, began, single=False)
    return looks._rest_until - began


@pytest.mark.parametrize("processes", [1, 4])
def test_looks_with_few_messages_follow_each_other_soon(processes: int) -> None:
    for found in (0, 1, MANY_MESSAGES):
        assert rest_after(processes, found, took=1.0) == pytest.approx(REST_SECONDS * processes)


@pytest.mark.parametrize("processes", [1, 4])
def test_a_look_with_many_messages_is_followed_by_a_rest_that_is_longer_where_looks_take_long(processes: int) -> None:
    many = MANY_MESSAGES + 1
    took = 0.9 * LONGEST_REST_SECONDS / TIMES_OF_A_LOOK
    assert rest_after(processes, many, took) >= TIMES_OF_A_LOOK * took * processes
    assert rest_after(processes, many, took=1.0) == pytest.approx(LONGEST_REST_SECONDS * processes)


def test_the_rest_counts_from_the_begin_of_the_look() -> None:
    looks = make()
    assert not looks.rest()
    looks.set_rest(1, 10, time.monotonic(), single=False)
    began = time.monotonic()
    assert looks.rest()
    assert time.monotonic() - began >= REST_SECONDS / 2
    looks.set_rest(1, 10, time.monotonic() - REST_SECONDS, single=False)
    assert not looks.rest()


def test_a_look_that_did_not_empty_the_queues_is_followed_at_once_or_after_the_handler_has_begun() -> None:
    looks = make()
    looks.set_rest(10, 10, time.monotonic(), single=False)
    assert not looks.rest()
    began = time.monotonic()
    looks.set_rest(1, 1, time.monotonic() - 1, single=True)
    assert time.monotonic() - began >= HANDLER_FIRST_SECONDS / 2
    assert looks.rest()
    assert not looks.rest()
