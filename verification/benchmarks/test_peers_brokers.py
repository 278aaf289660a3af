"""Queues on Redis, on RabbitMQ and in a database of their own run in the benchmark."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from django_pgqueue.embedded import temporary_cluster
from verification.benchmarks.cluster import Cluster, postmaster
from verification.benchmarks.peers import workloads
from verification.benchmarks.peers.brokers import RABBITMQ_KIND, REDIS_KIND, Kind
from verification.benchmarks.peers.counted import counted, total
from verification.benchmarks.peers.environments import PROGRAMS
from verification.benchmarks.peers.roster import CELERY_RABBITMQ, CELERY_REDIS, DBOS, DRAMATIQ, Peer
from verification.benchmarks.peers.workloads import Field, Scale

BACKLOG = Scale(messages=5_000, seconds=2, cap=10, rate=200, patience=60)
POISON = Scale(messages=1_000, seconds=2, cap=10, rate=100, patience=60)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with temporary_cluster() as server:
        yield Cluster(server, postmaster(server), Path("pgbench is not used"))


def alone(cluster: Cluster, peer: Peer, scale: Scale) -> Field:
    if (reason := peer.missing()) or not peer.environment.installed():
        pytest.skip(reason or f"{peer.name} is not installed: python -m verification.benchmarks peers --install")
    field = Field(cluster, (peer,), scale)
    field.prepare(backlog=scale is BACKLOG)
    return field


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("kind", [REDIS_KIND, RABBITMQ_KIND], ids=lambda kind: kind.package)
def test_a_broker_listens_on_loopback_alone_and_leaves_nothing(kind: Kind) -> None:
    if reason := kind.missing():
        pytest.skip(reason)
    with kind.start() as broker:
        assert runs(broker.pid)
        assert "127.0.0.1" in broker.url
        listening = {
            line.split()[1].partition(":")[0]
            for line in Path(f"/proc/{broker.pid}/net/tcp").read_text().splitlines()[1:]
            if line.split()[3] == "0A" and f"[{line.split()[9]}]" in sockets(broker.pid)
        }
        assert listening == {"0100007F"}
    assert not runs(broker.pid)
    assert not broker.folder.exists()


def sockets(pid: int) -> set[str]:
    """Return the inodes of the sockets of a process, each in brackets."""
    targets = (os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir())
    return {target.removeprefix("socket:") for target in targets if target.startswith("socket:")}


@pytest.mark.parametrize("peer", [CELERY_REDIS, CELERY_RABBITMQ, DRAMATIQ, DBOS], ids=lambda peer: peer.name)
def test_a_peer_drains_a_backlog(cluster: Cluster, peer: Peer) -> None:
    figures = workloads.drain(alone(cluster, peer, BACKLOG), peer, peer.settings["best"])
    assert figures.value > 0
    assert figures.remarks["server CPU µs per message"] > 0
    assert ("WAL bytes per message" in figures.remarks) == (peer.broker is None)


@pytest.mark.parametrize("peer", [CELERY_REDIS, CELERY_RABBITMQ, DRAMATIQ, DBOS], ids=lambda peer: peer.name)
def test_poison_is_tried_again_and_ends_as_dead(cluster: Cluster, peer: Peer) -> None:
    figures = workloads.poison(alone(cluster, peer, POISON), peer, peer.settings["slots"])
    assert figures.remarks["poison"] == figures.remarks["dead letters"] == POISON.messages // 5 // 100


def test_counts_of_all_processes_are_added_up(tmp_path: Path, cluster: Cluster) -> None:
    code = "import common; common.count('completed'); common.count('completed', 41)"
    for _ in range(2):
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "COUNTS": str(tmp_path), "PYTHONPATH": str(PROGRAMS)},
            check=True,
        )
    assert total(tmp_path, "completed") == 84
    with cluster.connect() as connection:
        row = counted("nobody", tmp_path).run_script(connection, "progress").fetchone()
        assert row is not None
        assert row[1:] == (0, 84)
