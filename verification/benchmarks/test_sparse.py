"""The contest of light tenants beside heavy ones gives the figures that it promises."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from verification.benchmarks import sparse
from verification.benchmarks.cluster import Cluster, throw_away
from verification.benchmarks.design import PGQUEUE


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with throw_away() as started:
        PGQUEUE.prepare(started)
        yield started


def test_light_channels_are_counted_beside_heavy_ones(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse, "HEAVY", 20)
    monkeypatch.setattr(sparse, "EVERY", 1.0)
    figures = sparse.sparse(cluster, light=50, seconds=2)
    assert 0.3 < figures.value < 3
    assert 20 < figures.remarks["light/s"] <= 51
    assert 1 <= figures.remarks["dequeues waited p50"] <= figures.remarks[sparse.DEQUEUES_P99] < 50
    assert 0 < figures.remarks["wait p50 ms"] <= figures.remarks["wait p99 ms"]
