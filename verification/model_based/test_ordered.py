"""Ordered channels with limits, pauses and failures give one message after the other, and all come to their end."""

from __future__ import annotations

import pytest

from .ordered_machine import OrderedMachine
from .sql import Queue
from .test_machine import LONG, run


@pytest.mark.timeout(LONG)
def test_a_few_cases_of_ordered_channels_do_what_the_model_does(queue: Queue) -> None:
    run(OrderedMachine, 4, same=True, queue=queue)


@pytest.mark.timeout(LONG)
@pytest.mark.parametrize(("examples", "same"), [(120, True), (24, False)], ids=["the same", "of today"])
def test_ordered_channels_do_what_the_model_does(queue: Queue, examples: int, same: bool) -> None:
    run(OrderedMachine, examples, same=same, queue=queue)
