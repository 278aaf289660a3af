"""The contest of an HTTP server that is down gives the figures that it promises."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from verification.benchmarks import flaky
from verification.benchmarks.cluster import Cluster, throw_away
from verification.benchmarks.design import PGQUEUE


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with throw_away() as started:
        PGQUEUE.prepare(started)
        yield started


def test_a_breaker_saves_calls_attempts_and_messages(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flaky, "QUIET_SECONDS", 2.0)
    without, guarded = (flaky.outage(cluster, breaker=breaker, seconds=12) for breaker in (None, flaky.BREAKER))
    assert guarded.value < without.value / 4
    assert guarded.remarks["attempts used up"] < without.remarks["attempts used up"] / 4
    assert guarded.remarks["dead letters"] == 0 < without.remarks["dead letters"]
