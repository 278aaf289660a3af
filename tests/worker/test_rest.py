"""The time between a producer's looks: short while few messages come, longer while looks are much of the work."""

from __future__ import annotations

import time

import pytest

from django_pgqueue.worker.fetch.rest import (
    HANDLER_FIRST_SECONDS,
    LONGEST_REST_SECONDS,
    MANY_MESSAGES,
    REST_SECONDS,
    TIMES_OF_A_LOOK,
    Rest,
)

LOOK = 0.002


@pytest.mark.parametrize("processes", [1, 4])
def test_looks_with_few_messages_follow_each_other_soon(processes: int) -> None:
    rest = Rest(processes)
    for found in (0, 1, MANY_MESSAGES):
        assert rest.seconds(found, took=1.0) == pytest.approx(REST_SECONDS * processes)


@pytest.mark.parametrize("processes", [1, 4])
def test_a_look_with_many_messages_is_followed_by_a_rest_that_is_longer_where_looks_take_long(processes: int) -> None:
    rest = Rest(processes)
    many = MANY_MESSAGES + 1
    assert rest.seconds(many, took=LOOK) == pytest.approx(TIMES_OF_A_LOOK * LOOK * processes)
    assert rest.seconds(many, took=0.0001) == pytest.approx(REST_SECONDS * processes)
    assert rest.seconds(many, took=1.0) == pytest.approx(LONGEST_REST_SECONDS * processes)


def test_the_rest_counts_from_the_begin_of_the_look() -> None:
    rest = Rest(1)
    assert not rest.take()
    rest.looked(1, 10, time.monotonic(), single=False)
    began = time.monotonic()
    assert rest.take()
    assert time.monotonic() - began >= REST_SECONDS / 2
    rest.looked(1, 10, time.monotonic() - REST_SECONDS, single=False)
    assert not rest.take()


def test_a_look_that_did_not_empty_the_queues_is_followed_at_once_or_after_the_handler_has_begun() -> None:
    rest = Rest(1)
    rest.looked(10, 10, time.monotonic(), single=False)
    assert not rest.take()
    began = time.monotonic()
    rest.looked(1, 1, time.monotonic() - 1, single=True)
    assert time.monotonic() - began >= HANDLER_FIRST_SECONDS / 2
    assert rest.take()
    assert not rest.take()
