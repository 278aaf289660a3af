from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgqueue import Constant, Exponential
from tests.support.cases import cases

SECOND = timedelta(seconds=1)


def test_a_constant_pause_is_the_same_after_each_failure():
    assert [Constant(SECOND).pause(attempt) for attempt in (1, 2, 50)] == [SECOND] * 3


def test_an_exponential_pause_is_random_below_a_bound_that_grows():
    for attempt, bound in [(1, 1), (2, 3), (3, 9), (4, 20), (1000, 20)]:
        found = [Exponential(SECOND, factor=3, longest=20 * SECOND).pause(attempt).total_seconds() for _ in range(300)]
        assert 0 <= min(found) < bound / 4
        assert bound / 2 < max(found) <= bound


@cases(
    "wrong",
    [
        lambda: Constant(5),
        lambda: Constant(-SECOND),
        lambda: Exponential(1),
        lambda: Exponential(-SECOND),
        lambda: Exponential(SECOND, longest=-SECOND),
        lambda: Exponential(SECOND, factor=1),
        lambda: Exponential(SECOND, factor=float("nan")),
        lambda: Exponential(SECOND, factor=1001),
    ],
)
def test_nonsense_is_refused_where_it_is_written(wrong):
    with pytest.raises(ValueError, match=r"Constant|Exponential"):
        wrong()
