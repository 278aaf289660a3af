"""Few messages, many who ask: the waits are those of real messages, and a line that grows is not hidden."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

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
