"""How workers share the notifications and the looks of a queue, so that several cost no more than one."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

from django_pgqueue import Delivery
from django_pgqueue.worker.fetch.notifications import Notifications
from django_pgqueue.worker.fetch.producer import REST_SECONDS
from django_pgqueue.worker.options import WorkerOptions
from django_pgqueue.worker.role import Role
from django_pgqueue.worker.served import ServedQueues
from tests.support.waiting import eventually
from tests.worker.conftest import scripts
from tests.worker.test_listening import asleep, make_producer


def test_a_notified_worker_takes_one_message_first_and_then_the_others(queue: None) -> None:
    found: list[Delivery] = []
    producer = make_producer(found)
    once = Role("producer", producer.run_once, crashed=lambda role, error: None)
    once.start()
    eventually(asleep)
    messages = scripts(2)
    producer.hear()
    once.join()
    assert producer.run_once() == 1
    assert producer.run_once() == 1
    assert [delivery.id for delivery in found] == messages


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
    notifications = Notifications(options, ServedQueues(options))
    slept: list[float] = []

    def notified(found: int) -> bool:
        notifications.announce()
        assert notifications.hear()
        notifications.answer()
        notifications.looked(found)
        return notifications.are_vain

    assert [notified(0) for _ in range(3)] == [False, False, True]
    for expected in (0.1, 0.2, 0.4, 0.4):
        notifications.leave_to_others(slept.append)
        assert not notifications.are_announced
        assert slept[-1] == pytest.approx(expected, rel=0.21)
        assert notified(0)
    assert [notified(1), notified(0), notified(0)] == [False] * 3
