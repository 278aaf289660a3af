"""Defects that are put into the model's database are noticed: in a run for changes, some of those in
changed functions."""

from __future__ import annotations

import pytest

from tests.suite.changes import changed_functions
from verification.chaos.sabotage.defects import DEFECTS, Defect

from .sabotage import NOTICED, OF_THE_MODEL, notice
from .sql import Queue

DEFECT_OF = {defect.name: defect for defect in (*DEFECTS, *OF_THE_MODEL)}
CHANGED = changed_functions()
CHOSEN = NOTICED if CHANGED is None else [name for name in NOTICED if DEFECT_OF[name].is_in(CHANGED)][:10]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", CHOSEN)
def test_a_defect_is_noticed(queue: Queue, name: str) -> None:
    assert notice(queue, DEFECT_OF[name])


def test_a_lost_fence_is_noticed(queue: Queue) -> None:
    """One of them in every run, so that a model that says nothing any more is found."""
    assert notice(queue, DEFECT_OF["complete takes any token"])


def test_without_a_defect_nothing_is_noticed(queue: Queue) -> None:
    assert not notice(queue, Defect("none", "complete", "RETURN QUERY", "RETURN QUERY", frozenset()), examples=5)
