"""A bulk enqueue on a cluster: its driver is killed in the middle, and it is run again with speculative tasks."""

# ruff: noqa: F811  (fixtures that are imported are arguments)
from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.spark.cluster import Cluster
from tests.spark.test_cluster import cluster  # noqa: F401  (a fixture)
from tests.spark.test_datasource_write import (
    Database,
    database,  # noqa: F401  (a fixture)
    ledger,
    one,
    stages,
)

PATIENCE_SECONDS = 280
ROWS = 3000
# The task of the last partition copies all its rows, commits them, and does not say so for a long time.
WRITE = """
import os, sys, time
from pathlib import Path

from pyspark.taskcontext import TaskContext

from django_pgqueue.spark.datasource import PgQueueDataSource
from django_pgqueue.spark.datasource.options import WriteOptions
from django_pgqueue.spark.datasource.writer import Writer
from django_pgqueue.spark.session import session

url, marks, speculation = sys.argv[1:]

class Late(Writer):
    def write(self, iterator):
        staged = super().write(iterator)
        task = TaskContext.get()
        Path(marks, f"{task.partitionId()}-{task.attemptNumber()}").touch()
        if task.partitionId() == 2 and task.attemptNumber() == 0:
            time.sleep(200)
        return staged

class LateSource(PgQueueDataSource):
    @classmethod
    def name(cls):
        return "pgqueue_late"

    def writer(self, schema, overwrite):
        return Late(WriteOptions.of(self.options), schema, overwrite)

if __name__ == "__main__":
    conf = {
        "spark.speculation": speculation, "spark.speculation.interval": "100ms", "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1.1", "spark.speculation.minTaskRuntime": "100ms",
    }
    with session("write", url, memory="512m", conf=conf) as spark:
        spark.dataSource.register(LateSource)
        frame = spark.range(0, %d, 1, 3).selectExpr("'mail.send' AS handler", "to_json(struct(id AS n)) AS payload")
        options = {"source": os.environ["PGQUEUE_SOURCE"], "job": "import"}
        frame.write.format("pgqueue_late").options(**options).mode("append").save()
"""


@pytest.mark.timeout(3 * PATIENCE_SECONDS)
def test_a_job_whose_driver_is_killed_and_that_runs_again_with_speculative_tasks_enqueues_each_row_once(
    cluster: Cluster, dsn: str, database: Database, tmp_path: Path
) -> None:
    job = tmp_path / "job.py"
    job.write_text(WRITE % ROWS)

    def start(marks: str, speculation: str) -> subprocess.Popen[str]:
        (tmp_path / marks).mkdir()
        return subprocess.Popen(
            [sys.executable, str(job), cluster.url, str(tmp_path / marks), speculation],
            env={
                **os.environ,
                "PGQUEUE_SOURCE": dsn,
                "SPARK_CONF_DIR": str(cluster.folder),
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    killed = start("killed", "false")
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len([*(tmp_path / "killed").iterdir()]) < 3:
            assert killed.poll() is None, killed.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        killed.kill()
        killed.communicate()
    assert (one(database, "SELECT count(*) FROM pgqueue_message"), ledger(database)) == (0, [])
    assert one(database, "SELECT count(*) FROM pgqueue_ingest_stage") == 3

    again = start("again", "true")
    try:
        _, errors = again.communicate(timeout=PATIENCE_SECONDS)
    finally:
        again.kill()
    assert again.returncode == 0, errors
    # The slow task had copied its rows as well when its speculative copy had.
    assert {path.name for path in (tmp_path / "again").iterdir()} >= {"2-0", "2-1"}
    rows = database.execute("SELECT count(*), count(DISTINCT payload ->> 'n') FROM pgqueue_message").fetchone()
    assert rows == (ROWS, ROWS)
    assert ledger(database) == [("import", 0, ROWS, 0, 0)]
    assert stages(database) == 0
