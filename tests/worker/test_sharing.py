"""How workers share the notifications and the looks of a queue, so that several cost no more than one."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from django_pgqueue import Delivery
from django_pgqueue.worker import numbers
from django_pgqueue.worker.looks import Looks, ServedQueues
from django_pgqueue.worker.numbers import REST_SECONDS
from django_pgqueue.worker.options import WorkerOptions
from django_pgqueue.worker.runtime import Role
from tests.support.sql import sql
from tests.support.waiting import eventually
from tests.worker.conftest import effects, script, scripts
from tests.worker.test_listening import NEVER, asleep, make_producer, sleepers

# So many processes rest for half a minute between two looks.
MANY = 10_000


def test_a_notified_worker_takes_one_message_first_and_then_the_others_at_once(queue: None) -> None:
    found: list[Delivery] = []
    producer = make_producer(found, processes=MANY)
    once = Role("producer", producer.run_once, crashed=lambda role, error: None)
    once.start()
    eventually(asleep)
    messages = scripts(2)
    producer._looks._rest_until = 0.0  # it has been quiet for long
    producer.hear()
    once.join()
    began = time.monotonic()
    assert producer.run_once() == 1
    assert producer.run_once() == 1
    assert time.monotonic() - began < MANY * REST_SECONDS
    assert [delivery.id for delivery in found] == messages


def test_a_worker_that_leaves_notifications_to_others_looks_by_itself(
    start: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others may have no free slot any more."""
    monkeypatch.setattr(numbers, "WITHDRAWN_SECONDS", 3600)
    monkeypatch.setattr(numbers, "LONGEST_WITHDRAWN_SECONDS", 3600)

    def notify_in_vain() -> bool:
        sql("SELECT pg_notify('pgqueue', 'default')")
        return not sleepers()

    start(listen="default", poll_interval=NEVER)
    eventually(asleep)
    eventually(notify_in_vain)
    message = script(["effect"])
    eventually(lambda: effects() == [(message, 1)], seconds=60)


def test_processes_of_one_supervisor_look_as_often_as_one_would(queue: None) -> None:
    producer = make_producer(processes=100)
    began = time.monotonic()
    scripts(1)
    assert producer.run_once() == 1
    scripts(1)
    assert producer.run_once() == 1
    assert time.monotonic() - began >= 100 * REST_SECONDS


@pytest.mark.django_db
def test_a_worker_that_is_notified_in_vain_leaves_that_to_others_for_longer_each_time() -> None:
    options = WorkerOptions(using="default", listen="default", poll_interval=timedelta(minutes=5))
    now = 100.0
    heard = Looks(options, ServedQueues(options), clock=lambda: now)

    def notified(found: int) -> bool:
        heard.announce()
        assert heard.hear()
        heard.begin()
        heard.ended(found, 1)
        return heard.leave_to_others()

    assert [notified(0) for _ in range(3)] == [False, False, True]
    for expected in (0.1, 0.2, 0.4, 0.4):
        assert not heard.are_announced
        # A fifth more or less, at random.
        now += 0.79 * expected
        assert heard.leave_to_others()
        assert not heard.hear()
        now += 0.42 * expected
        assert not heard.leave_to_others()
        assert notified(0)
    now += 1
    assert [notified(1), notified(0), notified(0)] == [False] * 3
