"""The same jobs on a standalone cluster: a master and two workers on loopback, one of whose executors is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pyarrow.dataset as ds
import pytest

from tests.spark.cluster import Cluster, standalone_cluster
from tests.spark.rows import DAY, fill_archive, fill_dead_letters

PATIENCE = 200
DAYS, ROWS = 24, 500

# Small, and a quick start instead of quick code.
DEFAULTS = """
spark.executor.memory 512m
spark.executor.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
"""
EXPORT = """
import sys
from pathlib import Path
from django_pgqueue.spark.export.job import Options, export
from django_pgqueue.spark.source import Source

if __name__ == "__main__":
    url, lake = sys.argv[1:]
    print(export(Source.from_environment(), Path(lake), Options(master=url, memory="512m", range_bytes=32_768)).rows)
"""

pytestmark = pytest.mark.timeout(2 * PATIENCE)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "spark-defaults.conf").write_text(DEFAULTS)
    with standalone_cluster(folder) as cluster:
        yield cluster


@pytest.fixture
def archive(database: psycopg.Connection) -> int:
    """Rows of several days, so that there are many tasks; how many they are."""
    for number in range(DAYS):
        fill_archive(database, ROWS, DAY + timedelta(days=number))
    fill_dead_letters(database, ROWS)
    return DAYS * ROWS


def start(cluster: Cluster, dsn: str, script: Path, *arguments: str) -> subprocess.Popen[str]:
    """A driver, whose executors are on the cluster."""
    return subprocess.Popen(
        [sys.executable, str(script), cluster.url, *arguments],
        env={
            **os.environ,
            "PGQUEUE_SOURCE": dsn,
            "SPARK_CONF_DIR": str(cluster.folder),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(driver: subprocess.Popen[str], pattern: str, folder: Path) -> None:
    """Until there is such a file: the tasks have begun."""
    deadline = time.monotonic() + PATIENCE
    while not next(folder.glob(pattern), None):
        assert driver.poll() is None, driver.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_an_export_survives_the_death_of_an_executor(
    cluster: Cluster, dsn: str, archive: int, lake: Path, tmp_path: Path
):
    (tmp_path / "job.py").write_text(EXPORT)
    with start(cluster, dsn, tmp_path / "job.py", str(lake)) as driver:
        wait_for(driver, "_pgqueue/staging/*/archive/*/*.parquet", lake)
        os.kill(cluster.executors()[0], signal.SIGKILL)
        output, errors = driver.communicate(timeout=PATIENCE)

    assert driver.returncode == 0, errors
    assert "Lost executor" in errors, "it was killed too late"
    assert f"'archive': {archive}, 'dead_letter': {ROWS}" in output
    rows = ds.dataset(lake / "archive", format="parquet").to_table(["id"]).column("id").to_pylist()
    assert len(rows) == len(set(rows)) == archive
