"""The model of more cores: each limit follows from the costs, and the page has the tables of today's inputs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.markdown import page
from verification.benchmarks.scale.command import INPUTS, limits_table, read, tables
from verification.benchmarks.scale.model import BUSY, Machine, Step, limits, serial

DISK = Machine(sync=0.0001, write=200e6)
STEP = Step("enqueue", server=100, client=50, wal=1_000, records=10, call=1, commits=1, pinned=9_000, both=13_000)


def rates(step: Step, cores: int, disk: Machine = DISK) -> dict[str, float]:
    return {limit.name: limit.rate for limit in limits((step,), disk, cores)}


def test_twice_the_cores_carry_twice_until_the_wal_ends_it() -> None:
    few, many = rates(STEP, 4), rates(STEP, 8)
    assert few["CPU"] == pytest.approx(BUSY * 4 / 150e-6)
    assert many["CPU"] == pytest.approx(2 * few["CPU"])
    assert many["commits"] == pytest.approx(2 * few["commits"])
    assert (many["WAL writes"], many["WAL places"]) == (few["WAL writes"], few["WAL places"])
    assert few["WAL writes"] == pytest.approx(200_000)
    assert few["WAL places"] == pytest.approx(1_000_000)


def test_a_call_of_many_messages_commits_once() -> None:
    assert rates(replace(STEP, call=50), 4)["commits"] == pytest.approx(50 * rates(STEP, 4)["commits"])


def test_the_first_limit_is_the_lowest() -> None:
    steps = (STEP, STEP, STEP)
    slow_disk = limits_table(steps, replace(DISK, write=1e6))
    assert all(line.endswith("WAL writes |") for line in slow_disk.splitlines()[2:])
    assert all(line.endswith("commits |") for line in limits_table(steps, replace(DISK, sync=1)).splitlines()[2:])


def test_the_slower_side_or_the_disk_ends_what_two_cores_carry() -> None:
    assert STEP.predicted_pinned(DISK) == pytest.approx(10_000)
    assert replace(STEP, client=200).predicted_pinned(DISK) == pytest.approx(5_000)
    assert STEP.predicted_both(DISK) == pytest.approx(2e6 / 150)
    assert STEP.predicted_both(replace(DISK, sync=0.01)) == pytest.approx(8 / 0.02)


def test_the_work_of_one_session_at_a_time_waits_for_its_disk() -> None:
    assert serial(1, 0.0001, DISK) == pytest.approx(5_000)
    assert serial(50, 0.0024, DISK) == pytest.approx(20_000)


def test_the_page_has_the_tables_of_the_inputs_that_are_kept() -> None:
    _, steps, disk = read(INPUTS)
    text = page("docs/explanation/scale.md")
    assert [table for table in tables(steps, disk) if table not in text] == []
