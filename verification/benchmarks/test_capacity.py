"""The contest of a tenant with long handlers beside one with short ones gives the figures that it promises."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from verification.benchmarks import capacity
from verification.benchmarks.cluster import Cluster, throw_away
from verification.benchmarks.design import PGQUEUE


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with throw_away() as started:
        PGQUEUE.prepare(started)
        yield started


def test_slots_that_are_kept_free_shorten_the_wait(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "LONG_SECONDS", 2.0)
    monkeypatch.setattr(capacity, "EVERY_SECONDS", 0.25)
    by_turns, kept = (
        capacity.capacity(cluster, settings=capacity.SETTINGS[name], seconds=6)
        for name in ("turns", "share, max_share 0.75")
    )
    assert by_turns.value > 2 * kept.value
    # Some of the handlers that ended in the window began before it.
    assert 5 < by_turns.remarks["A's busy slots"] < 10
    assert 3 < kept.remarks["A's busy slots"] < 7.5
    assert kept.remarks["B's wait, p50 ms"] <= kept.remarks[capacity.WAIT]
