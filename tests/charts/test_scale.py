from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_pgqueue.charts.scale import scale_for, value_text
from tests.support.cases import cases

AMOUNTS = st.floats(min_value=0, max_value=1e12, allow_subnormal=False)


@cases(
    ("value", "kind", "shown"),
    [
        (None, "count", "–"),
        (math.nan, "seconds", "–"),
        (0, "count", "0"),
        (1234, "count", "1,234"),
        (12_345, "count", "12.3k"),
        (2_500_000, "count", "2.5M"),
        (0.5, "count", "0.5"),
        (0, "seconds", "0"),
        (0.0042, "seconds", "4.2 ms"),
        (1.25, "seconds", "1.25 s"),
        (89.9, "seconds", "89.9 s"),
        (119.9, "seconds", "2 min"),
        (300, "seconds", "5 min"),
        (9000, "seconds", "2.5 h"),
        (864_000, "seconds", "10 d"),
        (0.5, "share", "50 %"),
        (0.9997, "share", "99.97 %"),
        (0.99999, "share", "99.99 %"),
        (1, "share", "100 %"),
        (0.123, "share", "12 %"),
        (0.0314, "share", "3.1 %"),
        (0.00042, "share", "0.042 %"),
        (0, "share", "0 %"),
    ],
)
def test_a_value_is_shown_short(value: float | None, kind: str, shown: str) -> None:
    assert value_text(value, kind) == shown


@cases(
    ("values", "kind", "ticks"),
    [
        ([0, 7], "count", (0, 2, 4, 6, 8)),
        ([1], "count", (0, 1)),
        ([3], "count", (0, 1, 2, 3)),
        ([980, 10], "count", (0, 250, 500, 750, 1000)),
        ([0.9], "share", (0, 0.25, 0.5, 0.75, 1.0)),
        ([0.09, 0.08], "seconds", (0, 0.025, 0.05, 0.075, 0.1)),
        ([400, 500], "seconds", (0, 150, 300, 450, 600)),
        ([], "count", (0, 1)),
        ([0, 0], "seconds", (0, 0.001)),
        ([None], "share", (0, 0.25, 0.5, 0.75, 1.0)),
    ],
)
def test_ticks_are_round_in_the_unit_that_is_shown(values: list, kind: str, ticks: tuple) -> None:
    assert scale_for(values, kind).ticks == pytest.approx(ticks)


def test_seconds_that_lie_far_apart_get_a_logarithmic_scale_with_round_times() -> None:
    scale = scale_for([0.02, 0.02, 0.03, 700], "seconds")

    assert scale.log
    assert [value_text(tick, "seconds") for tick in scale.ticks][:2] == ["10 ms", "100 ms"]
    assert scale.part(0.02) < scale.part(0.2) < scale.part(700) <= 1
    assert not scale_for([1, 1, 1, 30], "seconds").log
    assert not scale_for([1, 1, 1, 3000], "count").log


@given(st.lists(AMOUNTS, min_size=1), st.sampled_from(["count", "seconds"]))
def test_every_value_is_within_the_axis(values: list[float], kind: str) -> None:
    scale = scale_for(values, kind)

    assert scale.low < scale.high
    assert list(scale.ticks) == sorted(set(scale.ticks))
    assert len(scale.ticks) <= 9
    for value in values:
        assert -1e-9 <= scale.part(value) <= 1 + 1e-9
