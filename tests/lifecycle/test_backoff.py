"""The pause between attempts, as a message says."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgqueue import (
    Constant,
    Exponential,
    NewMessage,
    dead_letter,
    dequeue,
    enqueue,
    enqueue_many,
    redrive,
    retry,
)
from django_pgqueue.exceptions import InvalidMessage
from tests.support.cases import cases
from tests.support.messages import live
from tests.support.moments import expire
from tests.support.refusals import refused
from tests.support.sql import sql, value

pytestmark = pytest.mark.django_db

COLUMNS = ("backoff", "backoff_factor", "backoff_longest")
MINUTE = timedelta(minutes=1)


def pauses(*arguments: object, count: int = 400) -> list[float]:
    marks = ", ".join(["%s"] * len(arguments))
    return [
        float(row[0])
        for row in sql(
            f"SELECT extract(epoch FROM pgqueue_backoff({marks})) FROM generate_series(1, {count})", *arguments
        )
    ]


@cases(
    ("backoff", "columns"),
    [
        (None, (None, None, None)),
        (MINUTE, (MINUTE, None, None)),
        (Constant(MINUTE), (MINUTE, 1.0, None)),
        (Exponential(MINUTE), (MINUTE, None, None)),
        (Exponential(MINUTE, factor=3), (MINUTE, 3.0, None)),
        (Exponential(MINUTE, longest=10 * MINUTE), (MINUTE, None, 10 * MINUTE)),
    ],
)
def test_the_policy_is_kept_with_the_message(backoff, columns):
    one = enqueue("h", backoff=backoff)
    [many] = enqueue_many([NewMessage(handler="h", backoff=backoff)])
    [keyed] = enqueue_many([NewMessage(handler="h", backoff=backoff, dedupe_key="k")])
    for message in (one, many, keyed):
        assert live(message.id, *COLUMNS) == columns


def test_it_survives_a_dead_letter_and_its_redrive():
    enqueue("h", backoff=Exponential(MINUTE, factor=3, longest=10 * MINUTE))
    [delivery] = dequeue()
    dead_letter(delivery, reason="refused")
    assert live(redrive([delivery.id])[delivery.id], *COLUMNS) == (MINUTE, 3.0, 10 * MINUTE)


def test_a_constant_pause_is_exact():
    enqueue("h", backoff=Constant(3 * timedelta(hours=1)), max_attempts=9)
    [delivery] = dequeue()
    before = value("SELECT clock_timestamp()")
    retry(delivery, errors=[{}])
    due = live(delivery.id, "dequeue_at")
    assert before + timedelta(hours=3) <= due <= value("SELECT clock_timestamp()") + timedelta(hours=3)
    assert set(pauses(7, MINUTE, 1.0)) == {60.0}


def test_an_exponential_pause_grows_by_its_factor_with_full_jitter():
    found = pauses(3, MINUTE, 3.0, timedelta(hours=9))
    assert 0 <= min(found) < 60
    assert 480 < max(found) <= 540


def test_it_ends_at_the_longest():
    found = pauses(20, MINUTE, 3.0, timedelta(minutes=2))
    assert 100 < max(found) <= 120


def test_a_worker_that_dies_has_the_same_policy():
    enqueue("h", backoff=Constant(10 * MINUTE))
    [delivery] = dequeue()
    expire(delivery)
    sql("SELECT pgqueue_sweep()")
    left = live(delivery.id, "dequeue_at - clock_timestamp()")
    assert timedelta(minutes=9) < left <= timedelta(minutes=10)


@pytest.mark.parametrize("backoff", [5, "1 minute", lambda attempt, error: MINUTE])
def test_a_backoff_that_is_no_policy_is_refused(backoff):
    with refused(InvalidMessage, "backoff is not a timedelta"):
        enqueue("h", backoff=backoff)
