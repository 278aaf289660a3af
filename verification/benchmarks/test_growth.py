"""The contests about what grows measure what they say, on a small scale; with -m slow, each of them runs."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from django_pgqueue.embedded import temporary_cluster
from tests.support.paths import REPOSITORY
from tests.support.sessions import one, row_of
from tests.support.waiting import eventually
from verification.benchmarks import beside
from verification.benchmarks.cluster import Cluster, find_pgbench, postmaster
from verification.benchmarks.design import CHANNEL_ROW, PGQUEUE, RAW_FLOOR, Design
from verification.benchmarks.latency import sustained
from verification.benchmarks.load import BEFORE, DURING, Load, curve, keep_pace, peak
from verification.benchmarks.measure import FILL_STEP, Run, Sample, fresh
from verification.benchmarks.probe import Timing, percentile
from verification.benchmarks.situation import HELD, Situation, at_limits, script
from verification.benchmarks.spark.database import fill_archive
from verification.benchmarks.steady import steady
from verification.benchmarks.writes import writes

PATIENCE_SECONDS = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with temporary_cluster() as server:
        cluster = Cluster(server, postmaster(server), find_pgbench())
        for design in (RAW_FLOOR, CHANNEL_ROW, PGQUEUE):
            design.prepare(cluster)
        yield cluster


def count(run: Run, condition: str) -> int:
    return one(run.connection, f"SELECT count(*) FROM pgqueue_message WHERE {condition}")


def test_a_situation_is_made_once_and_each_run_changes_a_copy(cluster: Cluster) -> None:
    made = []
    situation = Situation("copied", channels=3, ready=30, prepare=lambda run: made.append(run.database))
    for _ in range(2):
        with situation.fresh(cluster, PGQUEUE) as run:
            assert count(run, "status = 1") == 30
            assert not row_of(run.script("pending"))[0]
            assert run.connection.execute("SELECT count(*) FROM pgqueue_lane").fetchone() == (3,)
            run.connection.execute("DELETE FROM pgqueue_message")
    assert len(made) == 1


def test_a_fill_reaches_every_channel_also_when_they_are_many(cluster: Cluster) -> None:
    channels = FILL_STEP + 1_000
    with fresh(cluster, PGQUEUE, channels) as run:
        run.fill(channels)
        assert run.connection.execute("SELECT count(DISTINCT channel_id) FROM pgqueue_message").fetchone() == (
            channels,
        )


def test_channels_at_their_limits_hold_one_message_and_keep_one(cluster: Cluster) -> None:
    with Situation("full", prepare=at_limits(20)).fresh(cluster, PGQUEUE) as run:
        assert (count(run, "status = 2"), count(run, "status = 1")) == (20, 20)
        assert run.connection.execute(HELD).fetchall() == []


def test_scheduled_messages_are_not_due(cluster: Cluster) -> None:
    with Situation("later", 5, prepare=script("schedule", messages=100, channels=5)).fresh(cluster, PGQUEUE) as run:
        assert count(run, "status = 3 AND dequeue_at > now() + interval '23 hours'") == 100
        assert run.connection.execute(HELD).fetchall() == []


@pytest.mark.parametrize("limits", ["limit", "limit_high"])
def test_limits_that_are_measured_have_stood_for_long(cluster: Cluster, limits: str) -> None:
    with Situation(limits, 3, prepare=script(limits)).fresh(cluster, PGQUEUE) as run:
        found = run.connection.execute("SELECT name, max_concurrency > 0, changed_at FROM pgqueue_channel ORDER BY 1")
        assert found.fetchall() == [*((name, True, None) for name in ("c1", "c2", "c3")), ("default", None, None)]


def test_the_backlog_stays_as_it_is_while_its_cost_is_measured(cluster: Cluster) -> None:
    figures = steady(cluster, PGQUEUE, Situation("steady", 2, 100), seconds=1, clients=2)
    took = {verb: figures.remarks[f"{verb} µs"] for verb in ("enqueue", "dequeue", "complete")}
    assert min(took.values()) > 0
    assert figures.value == took["dequeue"] + took["complete"]
    with cluster.connect(f"run_{PGQUEUE.name}") as connection:
        ready = one(connection, "SELECT count(*) FROM pgqueue_message")
        done = one(connection, "SELECT count(*) FROM pgqueue_archived_message")
    assert ready == 100
    assert done > 0


def test_the_writes_of_a_message_are_counted_exactly_where_they_are_known(cluster: Cluster) -> None:
    raw = writes(cluster, RAW_FLOOR, Situation("writes"), seconds=2).remarks
    assert (raw["inserted"], raw["dead rows"], raw["updated"]) == pytest.approx((1, 1, 0), abs=0.01)
    if "index entries" in raw:
        # A split writes a little more.
        assert raw["index entries"] == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("design", [CHANNEL_ROW, PGQUEUE], ids=lambda design: design.name)
def test_a_queue_writes_more_than_the_floor(cluster: Cluster, design: Design) -> None:
    figures = writes(cluster, design, Situation("writes", 2, 100), seconds=2)
    assert figures.value > 0
    assert figures.remarks["inserted"] >= 1
    assert figures.remarks["dead rows"] > 1
    assert 0 <= figures.remarks["HOT % of updates"] <= 100


@pytest.mark.parametrize("design", [CHANNEL_ROW, PGQUEUE], ids=lambda design: design.name)
def test_a_pace_is_followed_window_by_window_beside_an_open_snapshot(cluster: Cluster, design: Design) -> None:
    load = Load(design, Situation("pace", 5), batch=1)
    figures = keep_pace(cluster, load, rate=50, seconds=6, beside=beside.snapshot)
    assert figures.value > 0
    for series in figures.series.values():
        assert len(series) == BEFORE + DURING
    assert figures.remarks["throughput to start"] > 0
    assert figures.remarks["p99 to start"] > 0


def test_messages_of_requests_that_commit_late_are_completed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "REQUEST_SECONDS", 1.0)
    load = Load(PGQUEUE, Situation("requests", 5), batch=1)
    figures = keep_pace(cluster, load, rate=50, seconds=6, beside=beside.requests)
    assert figures.remarks["requests committed"] >= 4 * beside.REQUESTS
    assert figures.remarks["left behind"] < beside.REQUESTS


def test_channels_run_empty_and_get_messages_again_and_again(cluster: Cluster) -> None:
    load = Load(PGQUEUE, Situation("flips", 5), script="burst", burst=20)
    assert peak(cluster, load, seconds=2) > 0
    figures = keep_pace(cluster, load, rate=100, seconds=6, beside=beside.nothing)
    assert figures.remarks["left behind"] < 20 * 5


def test_a_dump_is_taken_again_and_again_beside_a_load(cluster: Cluster) -> None:
    load = Load(PGQUEUE, Situation("dumped", prepare=lambda run: fill_archive(run.connection, 100)))
    figures = keep_pace(cluster, load, rate=50, seconds=10, beside=beside.dump)
    assert figures.remarks["runs finished"] >= 1
    # Those that were in the archive before are not counted as done.
    assert figures.remarks["left behind"] >= 0


def test_a_program_that_fails_beside_the_load_is_reported() -> None:
    command = [sys.executable, "-c", "raise SystemExit('no such archive')"]
    with pytest.raises(RuntimeError, match="no such archive"), beside.again_and_again(command):
        wait_until_it_gave_up()


def wait_until_it_gave_up() -> None:
    eventually(lambda: not any("again and again" in thread.name for thread in threading.enumerate()))


def test_a_program_that_runs_at_the_end_is_ended() -> None:
    with beside.again_and_again([sys.executable, "-c", "import time; time.sleep(600)"]) as remarks:
        pass
    assert remarks == {"runs finished": 0}


def test_the_end_of_a_curve_is_compared_with_its_start() -> None:
    # Half as many from the fourth window on; a dequeue takes three times as long then.
    completed = [0, 10, 20, 30, *(30 + 5 * window for window in range(1, DURING + 1))]
    samples = [Sample(float(at), 0, done, 0, 0.0, 0.0) for at, done in enumerate(completed)]
    timings = [Timing(at / 10, 1.0 if at < 10 * BEFORE else 3.0) for at in range(10 * (BEFORE + DURING))]
    figures = curve(samples, timings, {"offered/s": 10})
    assert figures.value == 5
    assert figures.series["completed/s"] == (10,) * BEFORE + (5,) * DURING
    assert figures.series["p99 of dequeue, ms"] == (1,) * BEFORE + (3,) * DURING
    assert figures.remarks == {"throughput to start": 0.5, "p99 to start": 3, "offered/s": 10}


def test_a_percentile_is_of_the_dequeues_that_began_in_the_window() -> None:
    timings = [Timing(float(at), float(at)) for at in range(200)]
    assert percentile(timings, 0.99, 0, 100) == 99
    assert percentile(timings, 1.0, 0, 100) == 99
    assert percentile(timings, 0.5, 100, 200) == 150
    assert math.isnan(percentile(timings, 0.5, 300, 400))


def test_producers_are_measured_beside_a_worker_that_is_up(cluster: Cluster) -> None:
    figures = sustained(cluster, seconds=2, options=("--notify", "waiting"))
    assert figures.value > 0
    assert figures.remarks["completed/s"] > 0


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("group", ["growth", "notify"])
def test_each_contest_runs(group: str) -> None:
    command = [sys.executable, "-m", "verification.benchmarks", group, "--quick"]
    process = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr[-3000:]
    assert "ratio to the baseline" in process.stdout
