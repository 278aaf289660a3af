"""The harness works: each workload with us, and a drain with those peers that are installed (`make bench-peers`)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import cast

import pytest

from django_pgqueue.embedded import temporary_cluster
from tests.support.waiting import eventually
from verification.benchmarks.cluster import Cluster, postmaster
from verification.benchmarks.contest import Result, Standing
from verification.benchmarks.measure import Figures
from verification.benchmarks.peers import workloads
from verification.benchmarks.peers.contests import WORKLOADS, Outcome, promises
from verification.benchmarks.peers.environments import NpmEnvironment
from verification.benchmarks.peers.processes import Bench, identity
from verification.benchmarks.peers.programs.common import Plan
from verification.benchmarks.peers.report import as_json, table
from verification.benchmarks.peers.roster import GRAPHILE, OURS, PG_BOSS, PGQUEUER, PROCRASTINATE, Peer, ours
from verification.benchmarks.peers.workloads import Field, Scale

SMALL = Scale(messages=10_000, seconds=2, cap=5, rate=1_000, patience=60)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with temporary_cluster() as server:
        yield Cluster(server, postmaster(server), Path("pgbench is not used"))


@pytest.fixture(scope="module")
def field(cluster: Cluster) -> Field:
    prepared = Field(cluster, (ours(),), SMALL)
    prepared.prepare(backlog=True)
    return prepared


def drain(field: Field, peer: Peer) -> Figures:
    return workloads.drain(field, peer, peer.settings["slots"])


def alone(cluster: Cluster, peer: Peer, *, backlog: bool = False) -> Field:
    if not peer.environment.installed():
        pytest.skip(f"{peer.name} is not installed: python -m verification.benchmarks peers --install")
    field = Field(cluster, (peer,), SMALL)
    field.prepare(backlog=backlog)
    return field


def test_we_drain_a_backlog(field: Field) -> None:
    figures = drain(field, field.peers[0])
    assert figures.value > 0
    assert figures.remarks["WAL bytes per message"] > 0
    assert figures.remarks["client CPU µs per message"] > 0
    # The lease and the end of it.
    assert figures.remarks["dead rows"] >= 2


@pytest.mark.parametrize("peer", [PGQUEUER, PROCRASTINATE, GRAPHILE, PG_BOSS], ids=lambda peer: peer.name)
def test_a_peer_drains_a_backlog(cluster: Cluster, peer: Peer) -> None:
    figures = drain(alone(cluster, peer, backlog=True), peer)
    assert figures.value > 0
    assert figures.remarks["dead rows"] > 0


def test_a_poison_message_fails_alone_in_a_batch_of_pg_boss(cluster: Cluster) -> None:
    field = alone(cluster, PG_BOSS)
    figures = workloads.poison(field, PG_BOSS, PG_BOSS.settings["slots"])
    assert figures.remarks["poison"] == figures.remarks["dead letters"] == SMALL.messages // 5 // 100
    with cluster.connect(f"run_{field.empty(PG_BOSS).name}") as connection:
        again = "SELECT count(*) FROM pgboss.job WHERE state = 'completed' AND retry_count > 0"
        assert connection.execute(again).fetchone() == (0,)


def test_pg_boss_has_a_setting_that_notifies(cluster: Cluster) -> None:
    field = alone(cluster, PG_BOSS)
    assert workloads.latency(field, PG_BOSS, PG_BOSS.settings["notify"]).value > 0
    with cluster.connect(f"run_{field.empty(PG_BOSS).name}") as connection:
        assert connection.execute("SELECT notify FROM pgboss.queue WHERE name = 'benchmark'").fetchone() == (True,)


def test_settings_that_cannot_keep_pace_are_left_out_where_messages_come_at_a_rate() -> None:
    field = Field(cast(Cluster, None), (ours(), PG_BOSS), SMALL)
    for paced in ("latency", "load"):
        assert "pg-boss, default" not in WORKLOADS[paced].contest(field).contestants
    assert {"pg-boss, best", "pg-boss, notify"} <= set(WORKLOADS["latency"].contest(field).contestants)
    assert "pg-boss, default" in WORKLOADS["drain"].contest(field).contestants


def test_a_peer_may_bring_its_own_node() -> None:
    assert isinstance(PG_BOSS.environment, NpmEnvironment)
    assert PG_BOSS.environment.interpreter == str(PG_BOSS.environment.folder / "node_modules" / "node" / "bin" / "node")
    assert GRAPHILE.environment.interpreter == "node"


def test_we_complete_while_producers_enqueue(field: Field) -> None:
    peer = field.peers[0]
    figures = workloads.sustained(field, peer, peer.settings["slots"])
    assert figures.value > 0
    assert figures.remarks["enqueued/s"] > 0


@pytest.mark.parametrize("workload", [workloads.latency, workloads.load])
def test_each_message_waits_for_a_time_that_is_measured(field: Field, workload: Callable[..., Figures]) -> None:
    peer = field.peers[0]
    figures = workload(field, peer, peer.settings["default"])
    assert figures.value <= figures.remarks["p95"] <= figures.remarks["p99"]
    # Below zero where the producer lost the processor between the commit and its note of the time.
    assert abs(figures.value) < 1e3 * (SMALL.seconds + SMALL.patience)


def test_poison_ends_as_dead_letters(field: Field) -> None:
    peer = field.peers[0]
    figures = workloads.poison(field, peer, peer.settings["slots"])
    assert figures.value > 0
    assert figures.remarks["poison"] == figures.remarks["dead letters"] == SMALL.messages // 5 // 100


def test_a_message_of_a_killed_child_is_started_again(field: Field) -> None:
    peer = field.peers[0]
    assert 0 < workloads.kill_worker(field, peer, peer.settings["default"], child=True).value < SMALL.patience


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Bench]:
    with ExitStack() as stack:
        yield Bench(ours(), "postgresql://nobody@/nothing?host=/nowhere", tmp_path / "marks", stack)


def test_children_of_a_killed_worker_do_not_stay(opened: Bench) -> None:
    code = "import subprocess, time; subprocess.Popen(['sleep', '600']); print('ready', flush=True); time.sleep(600)"
    worker = opened.start(("-c", code))
    deadline = time.monotonic() + 60
    eventually(lambda: "ready" in worker.tail(), seconds=60)
    worker.kill()
    (orphan,) = worker.family
    assert identity(orphan[0]) == orphan
    worker.stop()
    while time.monotonic() < deadline:
        with suppress(OSError):
            if Path(f"/proc/{orphan[0]}/stat").read_text().rpartition(") ")[2][0] != "Z":
                continue
        return
    pytest.fail("the child of the killed worker still runs")


def test_a_program_that_fails_says_why(opened: Bench) -> None:
    with pytest.raises(RuntimeError, match="no such message"):
        opened.start(("-c", "raise SystemExit('no such message')")).wait(60)


def test_one_message_in_so_many_is_poison() -> None:
    handlers = [handler for _, handler, _ in Plan("mark", count=300, poison_every=100).messages()]
    assert handlers.count("poison") == 3
    assert handlers[50] == "poison"


def test_the_pace_is_kept_over_the_whole_run() -> None:
    due = [due for _, _, due in Plan(count=100, rate=1_000).messages()]
    assert due == sorted(due)
    assert due[-1] - due[0] == pytest.approx(0.099, abs=0.002)


def outcome(workload: str, **values: list[float]) -> Outcome:
    standings = [
        Standing(name.replace("__", ", ").replace("_", "-"), tuple(map(Figures, runs)), None)
        for name, runs in values.items()
    ]
    contest = WORKLOADS[workload].contest(Field(cast(Cluster, None), (ours(),), SMALL))
    return Outcome(workload, Result(contest, tuple(standings)), {})


def test_a_promise_is_judged_by_the_median_ratio_of_the_rounds() -> None:
    played = outcome("drain", pgqueue__best=[100, 10, 100], pgqueuer__best=[50, 9, 40])
    (promise,) = promises([played])
    assert (promise.value, promise.met) == (2.0, True)


def found(played: Outcome, name: str) -> Standing:
    standing = played.find(name)
    assert standing is not None
    return standing


def test_less_is_better_where_time_is_measured() -> None:
    played = outcome("kill", pgqueue__default=[15.0], pgqueue__child=[1.0], pgqueuer__default=[30.0])
    assert played.advantage(found(played, "pgqueuer, default")) == 2.0
    assert played.advantage(found(played, f"{OURS}, default")) is None


def test_a_recovery_that_never_happens_is_never_in_the_table_and_null_in_json() -> None:
    played = outcome("kill", pgqueue__default=[15.0], pgqueue__child=[25.0], procrastinate__default=[float("inf")])
    assert "| procrastinate |  | never | never to never | ∞ |" in table([played], markdown=True)
    report = json.loads(as_json({}, {}, [played]))
    assert report["workloads"][0]["contestants"][2]["median"] is None
    assert [promise["met"] for promise in report["promises"]] == [True, False]
