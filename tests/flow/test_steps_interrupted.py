"""A handler with steps that is interrupted anywhere, in any way: each step runs once, and a wait ends in one way."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_pgqueue import (
    complete,
    dead_letter,
    defer,
    dequeue,
    discard,
    enqueue,
    heartbeat,
    lease_release,
    redrive,
    retry,
)  # fmt: skip
from django_pgqueue.delivery import Delivery
from django_pgqueue.exceptions import EventTimeout
from django_pgqueue.flow import notify_event, steps_of
from django_pgqueue.flow.steps import StepPause
from tests.support.sql import sql

pytestmark = pytest.mark.django_db

numbers = count()
FATES: dict[str, Callable[[Delivery[Any]], Any]] = {
    "fails": lambda delivery: retry(delivery, errors=[{}], delays=[timedelta(0)]),
    "goes back": defer,
    "loses its lease": lambda delivery: lease_release(delivery.id),
    "gives its lease back": lambda delivery: heartbeat(delivery, lease=timedelta(0)),
    "is dead": lambda delivery: [dead_letter(delivery, reason="no"), redrive(delivery.id)],
    "is discarded": lambda delivery: [discard(delivery.id), redrive(delivery.id)],
}
interruptions = st.lists(st.tuples(st.integers(0, 9), st.sampled_from(sorted(FATES)), st.booleans()), max_size=8)


class Interrupted(Exception):
    pass


class Run:
    """Deliver one message again and again. ``calls``: its steps that ran; ``answers``: how its wait ended."""

    def __init__(self) -> None:
        self.event = f"event {next(numbers)}"
        self.calls: list[Any] = []
        self.answers: list[str] = []
        enqueue("job", max_attempts=100)

    def work(self, delivery: Delivery[Any], stop: int) -> None:
        """Work as a handler, and raise Interrupted before the ``stop``th action."""
        left = iter(range(stop))

        def go_on() -> None:
            if next(left, None) is None:
                raise Interrupted

        step = steps_of(delivery)
        for name, atomic in (("a", False), ("b", True)):
            go_on()
            step(name, self.calls.append, name, atomic=atomic)
        go_on()
        step.sleep("nap", timedelta(hours=1))
        go_on()
        try:
            self.answers.append(step.wait(self.event, timedelta(hours=1)))
        except EventTimeout:
            self.answers.append("late")
        with step.cursor("rows", 0) as cursor:
            for row in range(cursor.value, 3):
                go_on()
                self.calls.append(row)
                cursor.set(row + 1)
        go_on()
        step("c", self.calls.append, "c")
        go_on()

    def deliver(self, stop: int, fate: str, notify: bool) -> bool:
        """Deliver the message if it is ready, and let it meet its fate. Returns whether it is done."""
        if notify:
            notify_event(self.event, "came")
        if not (deliveries := dequeue()):
            sql("SELECT pgqueue_reschedule(array_agg(id)) FROM pgqueue_message")
            deliveries = dequeue()
        [delivery] = deliveries
        try:
            self.work(delivery, stop)
        except Interrupted:
            FATES[fate](delivery)
        except StepPause as pause:
            pause.settle(delivery, skip_lost=False, using="default")
        else:
            complete(delivery)
            return True
        return False


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(interruptions)
def test_each_step_runs_once_and_a_wait_ends_in_one_way(interrupted: list[tuple[int, str, bool]]) -> None:
    run = Run()
    for stop, fate, notify in interrupted:
        if run.deliver(stop, fate, notify):
            break
    else:
        assert any(run.deliver(100, "fails", False) for _ in range(5))
    assert run.calls == ["a", "b", 0, 1, 2, "c"]
    assert len({*run.answers}) == 1
    assert sql("SELECT count(*) FROM pgqueue_step") == sql("SELECT count(*) FROM pgqueue_message") == [(0,)]
