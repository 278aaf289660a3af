"""One session and a clock that may go anywhere: the queue does what its documentation says."""

from __future__ import annotations

import os
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from .clock import readings
from .limit_machine import LimitMachine
from .machine import QueueMachine
from .operators import OperatorMachine
from .sql import Queue

# PGQUEUE_MODEL=60 runs sixty times as many, 0.1 a tenth.
TIMES = float(os.environ.get("PGQUEUE_MODEL", "1"))
# Seconds, on a machine that is busy with something else; and a failure takes minutes to become short.
LONG = 1800 * max(TIMES, 1)
STEPS = 60
COMMON = settings(
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
    report_multiple_bugs=False,
    database=None,
)


def run(machine: type[RuleBasedStateMachine], examples: int, *, same: bool, **attributes: Any) -> None:
    """So many cases, or more. ``same``: those of the last time."""
    wanted = max(round(examples * TIMES), 1)
    counted: Any = type(machine.__name__, (machine,), {**attributes, "steps": 0})
    run_state_machine_as_test(counted, settings=settings(COMMON, max_examples=wanted, derandomize=same))
    assert counted.steps >= wanted * STEPS * 0.7


@pytest.mark.timeout(LONG)
def test_the_queue_does_what_the_model_does(queue: Queue) -> None:
    run(QueueMachine, 300, same=True, queue=queue)


@pytest.mark.timeout(LONG)
def test_the_queue_does_what_the_model_does_in_cases_of_today(queue: Queue) -> None:
    run(QueueMachine, 34, same=False, queue=queue)


@pytest.mark.timeout(LONG)
def test_the_queue_does_what_the_model_does_with_operators(queue: Queue) -> None:
    run(OperatorMachine, 80, same=True, queue=queue)


@pytest.mark.timeout(LONG)
def test_the_queue_does_what_the_model_does_with_operators_in_cases_of_today(queue: Queue) -> None:
    run(OperatorMachine, 16, same=False, queue=queue)


@pytest.mark.timeout(LONG)
def test_limits_shares_and_the_order_of_channels_do_what_the_model_does(queue: Queue) -> None:
    run(LimitMachine, 80, same=True, queue=queue)


@pytest.mark.timeout(LONG)
def test_limits_shares_and_the_order_of_channels_do_what_the_model_does_in_cases_of_today(queue: Queue) -> None:
    run(LimitMachine, 16, same=False, queue=queue)


def test_nothing_goes_by_another_clock(model_url: str) -> None:
    with psycopg.connect(model_url) as session:
        assert readings(session) == []
