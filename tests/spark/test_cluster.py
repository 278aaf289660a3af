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

from django_pgqueue.spark.lake import Lake
from tests.spark.cluster import Cluster, standalone_cluster
from tests.spark.rows import DAY, fill_archive, fill_dead_letters

PATIENCE_SECONDS = 280
DAYS, ROWS = 8, 500

# Small, and a quick start instead of quick code.
DEFAULTS = """
spark.executor.memory 512m
spark.executor.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
"""
EXPORT = """
import sys
from pathlib import Path
from django_pgqueue.spark.export.job import ExportOptions, export
from django_pgqueue.spark.source import Source

if __name__ == "__main__":
    url, lake = sys.argv[1:]
    options = ExportOptions(master=url, memory="512m", range_bytes=32_768)
    print(export(Source.from_environment(), Path(lake), options).rows)
"""
READ = """
import os, sys
from django_pgqueue.spark.session import session

if __name__ == "__main__":
    url, target = sys.argv[1:]
    with session("read", url, memory="512m") as spark:
        reader = spark.read.format("pgqueue").option("source", os.environ["PGQUEUE_SOURCE"])
        rows = reader.option("table", "archive").option("partitions", "8").load()
        rows.select("id", "payload").write.parquet(target)
"""

pytestmark = pytest.mark.timeout(2 * PATIENCE_SECONDS)


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


def run_with_a_kill(cluster: Cluster, dsn: str, job: Path, target: Path, begun: str) -> str:
    """Return the output of a job one of whose executors was killed as soon as a file ``begun`` was in its target."""
    driver = subprocess.Popen(
        [sys.executable, str(job), cluster.url, str(target)],
        env={**os.environ, "PGQUEUE_SOURCE": dsn, "SPARK_CONF_DIR": str(cluster.folder), "SPARK_LOCAL_IP": "127.0.0.1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not next(target.glob(begun), None):
            assert driver.poll() is None, driver.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.kill(cluster.executors()[0], signal.SIGKILL)
        output, errors = driver.communicate(timeout=PATIENCE_SECONDS)
    finally:
        driver.kill()
    assert driver.returncode == 0, errors
    assert "Lost executor" in errors, "it was killed too late"
    return output


def ids(folder: Path) -> tuple[int, int]:
    """How many rows there are, and how many different ones."""
    found = ds.dataset(folder, format="parquet").to_table(["id"]).column("id").to_pylist()
    return len(found), len(set(found))


def test_an_export_survives_the_death_of_an_executor(
    cluster: Cluster, dsn: str, archive: int, lake: Path, tmp_path: Path
):
    (tmp_path / "job.py").write_text(EXPORT)
    output = run_with_a_kill(cluster, dsn, tmp_path / "job.py", lake, "_pgqueue/staging/*/archive/*/*.parquet")

    assert f"'archive': {archive}, 'dead_letter': {ROWS}" in output
    found = Lake.open(lake).delta("archive").to_pyarrow_table(columns=["id"])["id"].to_pylist()
    assert (len(found), len({*found})) == (archive, archive)


def test_a_read_of_the_data_source_survives_the_death_of_an_executor(
    cluster: Cluster, dsn: str, archive: int, tmp_path: Path
):
    (tmp_path / "job.py").write_text(READ)
    run_with_a_kill(cluster, dsn, tmp_path / "job.py", tmp_path / "rows", "_temporary/0/task_*/*.parquet")

    assert ids(tmp_path / "rows") == (archive, archive)
