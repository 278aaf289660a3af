from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from django_pgqueue.embedded import Binaries, Cluster, temporary_cluster
from tests.embedded.conftest import query
from tests.support.processes import process_runs


def test_a_temporary_cluster_is_gone_afterwards(binaries: Binaries):
    with temporary_cluster(binaries=str(binaries.folder), settings={"max_connections": "33"}) as cluster:
        pid = cluster.pid
        assert query(cluster, "SHOW server_version").startswith(binaries.number)
        assert query(cluster, "SHOW fsync") == "off"
        assert query(cluster, "SHOW max_connections") == "33"
    assert not process_runs(pid)
    assert not cluster.folder.exists()


def test_a_temporary_cluster_is_gone_after_an_error():
    def fail(cluster: Cluster) -> None:
        raise LookupError(cluster.pid)

    with pytest.raises(LookupError) as raised, temporary_cluster() as cluster:
        fail(cluster)
    assert not process_runs(raised.value.args[0])
    assert not cluster.folder.exists()


def test_one_that_never_started_leaves_nothing():
    with temporary_cluster(start=False) as cluster:
        assert cluster.pid is None
        assert str(cluster.folder) in cluster.url()
    assert not cluster.folder.exists()


def test_the_folder_of_a_killed_process_is_removed_by_the_next_one_and_no_other_folder(
    in_python: Callable[..., subprocess.Popen[str]],
):
    script = "with temporary_cluster() as c: print(c.folder, c.pid, flush=True); input()"
    killed, alive = in_python(script), in_python(script)
    killed_folder, killed_pid = killed.stdout.readline().split()
    alive_folder, alive_pid = alive.stdout.readline().split()
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert process_runs(int(killed_pid))

    with temporary_cluster(start=False):
        assert not process_runs(int(killed_pid))
        assert not Path(killed_folder).exists()
        assert process_runs(int(alive_pid))

    alive.communicate("end\n")
    assert not process_runs(int(alive_pid))
    assert not Path(alive_folder).exists()
