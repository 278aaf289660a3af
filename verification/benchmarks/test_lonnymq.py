"""LonnyMQ's functions beside ours: they work as in their own hands, and where they are missing the table says so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from tests.support.sessions import one
from verification.benchmarks import lonnymq
from verification.benchmarks.cluster import Cluster, throw_away
from verification.benchmarks.contest import Result
from verification.benchmarks.measure import drain, mixed
from verification.benchmarks.plan import QUICK, Plan
from verification.benchmarks.report import table
from verification.benchmarks.workloads import WORKLOADS

PLAN = Plan(cast(Cluster, None), 1, 1, 1_000, QUICK)
ONE_A_CALL = ("mixed", "drain-single", "short-line")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    if not lonnymq.present():
        pytest.skip("no checkout of LonnyMQ, or nothing that renders its SQL")
    with throw_away() as started:
        lonnymq.LONNYMQ.prepare(started)
        yield started


@pytest.mark.parametrize("channels", [1, 20])
def test_producers_and_consumers_get_on(cluster: Cluster, channels: int) -> None:
    assert mixed(cluster, lonnymq.LONNYMQ, channels=channels, seconds=1, producers=2, consumers=2).value > 0


def test_a_backlog_is_drained(cluster: Cluster) -> None:
    assert drain(cluster, lonnymq.LONNYMQ, channels=20, backlog=2_000, clients=2, batch=1, seconds=20).value > 0
    with cluster.connect("run_lonnymq") as connection:
        left = "SELECT (SELECT count(*) FROM lonnymq.message), (SELECT sum(current_size) FROM lonnymq.channel_state)"
        assert connection.execute(left).fetchone() == (0, 0)


def test_its_clock_does_not_jump_back(cluster: Cluster) -> None:
    with cluster.connect("template_lonnymq") as connection:
        seconds = "SELECT lonnymq.epoch() / 1000.0 - extract(epoch FROM now())"
        assert abs(one(connection, seconds)) < 0.01


@pytest.mark.parametrize("name", ONE_A_CALL)
def test_where_it_is_missing_the_table_says_so(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(lonnymq, "CHECKOUT", tmp_path)
    for contest in WORKLOADS[name](PLAN):
        assert lonnymq.NAME not in contest.contestants
        text = table([Result(replace(contest, contestants={}), ())], markdown=True)
        assert f"| {contest.title} | lonnymq | NO CHECKOUT of its repository in .pgqueue/peers/lonnymq |" in text


@pytest.mark.parametrize("name", ONE_A_CALL)
def test_with_a_checkout_it_takes_part(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lonnymq, "present", lambda: (lonnymq.LONNYMQ,))
    for contest in WORKLOADS[name](PLAN):
        assert lonnymq.NAME in contest.contestants
        assert lonnymq.NAME not in contest.absent
