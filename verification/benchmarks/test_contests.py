"""Contests give the figures that they promise, on a small scale."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from verification.benchmarks import capacity, flaky, sparse
from verification.benchmarks.cluster import Cluster, throw_away
from verification.benchmarks.design import CHANNEL_ROW, PGQUEUE, Design
from verification.benchmarks.plan import QUICK, Plan
from verification.benchmarks.short_line import short_line
from verification.benchmarks.workloads import WORKLOADS


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with throw_away() as started:
        for design in (PGQUEUE, CHANNEL_ROW):
            design.prepare(started)
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


def test_a_breaker_saves_calls_attempts_and_messages(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flaky, "QUIET_SECONDS", 2.0)
    without, guarded = (flaky.outage(cluster, breaker=breaker, seconds=12) for breaker in (None, flaky.BREAKER))
    assert guarded.value < without.value / 4
    assert guarded.remarks["attempts used up"] < without.remarks["attempts used up"] / 4
    assert guarded.remarks["dead letters"] == 0 < without.remarks["dead letters"]


def test_light_channels_are_counted_beside_heavy_ones(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse, "HEAVY", 20)
    monkeypatch.setattr(sparse, "EVERY", 1.0)
    figures = sparse.sparse(cluster, light=50, seconds=2)
    assert 0.3 < figures.value < 3
    assert 20 < figures.remarks["light/s"] <= 51
    assert 1 <= figures.remarks["dequeues waited p50"] <= figures.remarks[sparse.DEQUEUES_P99] < 50
    assert 0 < figures.remarks["wait p50 ms"] <= figures.remarks["wait p99 ms"]


@pytest.mark.parametrize("design", [PGQUEUE, CHANNEL_ROW], ids=lambda design: design.name)
def test_a_message_costs_the_server_something_and_waits(cluster: Cluster, design: Design) -> None:
    figures = short_line(cluster, design, channels=3, seconds=2, rate=lambda: 20)
    assert figures.value > 0
    assert 0 <= figures.remarks["wait p50 ms"] <= figures.remarks["wait p99 ms"]
    assert figures.remarks["completed/s"] > 0


def test_messages_that_are_not_taken_wait_for_ever(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "take.sql").write_text("SELECT 1, NULL::uuid WHERE %(batch)s::int = 0")
    asleep = replace(PGQUEUE, scripts=tmp_path, like=PGQUEUE)
    figures = short_line(cluster, asleep, channels=1, seconds=1, rate=lambda: 20)
    assert figures.remarks["wait p50 ms"] == float("inf")


def test_a_producer_that_fails_ends_the_run(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "offer.sql").write_text("SELECT 1 / 0, %(channel)s::int")
    with pytest.raises(RuntimeError, match="a producer failed"):
        short_line(cluster, replace(PGQUEUE, scripts=tmp_path, like=PGQUEUE), channels=1, seconds=1, rate=lambda: 20)


def test_the_peak_is_looked_for_only_when_it_is_needed() -> None:
    # Building the contests must not measure: there is no cluster yet.
    titles = [contest.title for contest in WORKLOADS["short-line"](Plan(cast(Cluster, None), 1, 1, 1_000, QUICK))]
    assert [title.partition(",")[0] for title in titles] == ["400 messages/s", "400 messages/s", "60% of its own peak"]
