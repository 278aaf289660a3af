"""Queries of Spark that read from the queue and write to it, also when their driver is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.sessions import Connect, one

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
from tests.spark.test_datasource_stream import Database, send

PATIENCE_SECONDS = 600


def stream(spark: SparkSession, dsn: str, **options: str) -> DataFrame:
    return spark.readStream.format("pgqueue").options(source=dsn, **options).load()


def ended(query: StreamingQuery) -> None:
    try:
        assert query.awaitTermination(PATIENCE_SECONDS)
    finally:
        query.stop()


def written(folder: Path) -> list[int]:
    """The ids in the files that Spark's sink has committed, as any reader that honours its log sees them."""
    import pyarrow.parquet as pq

    files: set[str] = set()
    for log in (folder / "_spark_metadata").iterdir():
        if not log.name.startswith("."):
            files |= {json.loads(line)["path"].removeprefix("file://") for line in log.read_text().splitlines()[1:]}
    return [i for file in files for i in pq.read_table(file, columns=["id"])["id"].to_pylist()]


@pytest.mark.timeout(3 * PATIENCE_SECONDS)
def test_a_queue_is_consumed_and_settled(spark: SparkSession, dsn: str, database: Database, tmp_path: Path) -> None:
    send(database, 100)
    writer = stream(spark, dsn, batch_messages="40").select("id", "channel", "payload").writeStream
    writer = writer.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    ended(writer.trigger(availableNow=True).start(str(tmp_path / "out")))

    sent = one(database, "SELECT array_agg(id ORDER BY id) FROM pgqueue_archived_message")
    assert sorted(written(tmp_path / "out")) == sent
    assert len(sent) == 100
    assert one(database, "SELECT count(*) FROM pgqueue_message") == 0


@pytest.mark.timeout(3 * PATIENCE_SECONDS)
def test_a_stream_is_enqueued_once_also_when_a_batch_is_written_again(
    spark: SparkSession, dsn: str, database: Database, tmp_path: Path
) -> None:
    incoming = tmp_path / "incoming"
    incoming.mkdir()

    def run(file: int) -> None:
        lines = [json.dumps({"n": file * 100 + n}) for n in range(50)]
        (incoming / f"{file}.json").write_text("\n".join(lines))
        frame = spark.readStream.schema("n INT").json(str(incoming))
        frame = frame.selectExpr("'work' AS handler", "struct(n) AS payload")
        writer = frame.writeStream.format("pgqueue").options(
            source=dsn, checkpointLocation=str(tmp_path / "checkpoint")
        )
        ended(writer.trigger(availableNow=True).start())

    run(1)
    # The driver dies after the batch was enqueued, before Spark notes that it is committed.
    for file in (tmp_path / "checkpoint" / "commits").iterdir():
        file.unlink()
    run(2)
    counts = database.execute("SELECT count(*), count(DISTINCT payload ->> 'n') FROM pgqueue_message").fetchone()

    assert counts == (100, 100)
    assert one(database, "SELECT count(*) FROM pgqueue_ingest") == 1
    assert one(database, "SELECT count(*) FROM pgqueue_ingest_stage") == 0


PROGRAM = """
import sys
from django_pgqueue.spark.session import session

folder, available, lease = sys.argv[1:]
# A quick start instead of quick code.
java = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
with session("killed", master="local[2]", memory="512m", conf=java) as spark:
    frame = spark.readStream.format("pgqueue").options(batch_messages="50", partitions="2", lease=lease).load()
    writer = frame.select("id").writeStream.format("parquet").option("checkpointLocation", folder + "/checkpoint")
    if available == "now":
        writer = writer.trigger(availableNow=True)
    writer.start(folder + "/out").awaitTermination()
"""


class Driver:
    """A driver of the stream, in a process group of its own."""

    def __init__(self, folder: Path, dsn: str, available: str = "") -> None:
        self.folder = folder
        environment = {**os.environ, "PGQUEUE_SOURCE": dsn, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self.log = (folder / "log").open("a")
        command = [sys.executable, str(folder / "program.py"), str(folder), available or "ever", "10s"]
        self.process = subprocess.Popen(
            command, env=environment, stdout=self.log, stderr=self.log, start_new_session=True
        )

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.log.close()

    def said(self) -> str:
        return (self.folder / "log").read_text()[-3000:]


def planned(folder: Path) -> int:
    """The last batch that is in the checkpoint, committed or not."""
    return max((int(file.name) for file in (folder / "checkpoint" / "offsets").glob("[0-9]*")), default=-1)


@pytest.mark.slow
@pytest.mark.timeout(5 * PATIENCE_SECONDS)
def test_a_driver_killed_three_times_beside_a_worker_loses_and_doubles_nothing(
    dsn: str, database: Database, connect: Connect, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = threading.Event()
    worked: list[int] = []
    sender, worker = connect(autocommit=True), connect(autocommit=True)

    def feed() -> None:
        while not done.is_set():
            send(sender, 20)
            done.wait(0.2)

    def work() -> None:
        while not done.is_set():
            leased = worker.execute("SELECT id, token FROM pgqueue_dequeue(p_limit => 3)").fetchall()
            if leased:
                held = sorted(leased)
                worker.execute("SELECT pgqueue_complete(%s, %s)", [[i for i, _ in held], [token for _, token in held]])
                worked.extend(i for i, _ in held)
            done.wait(0.3)

    threads = [threading.Thread(target=feed), threading.Thread(target=work)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            seen = planned(tmp_path)
            driver = Driver(tmp_path, dsn)
            try:
                deadline = time.monotonic() + PATIENCE_SECONDS
                while planned(tmp_path) < seen + 3:
                    assert time.monotonic() < deadline, driver.said()
                    if driver.process.poll() is not None:
                        # On a busy machine Spark gives up on its workers: one more crash.
                        driver.kill()
                        driver = Driver(tmp_path, dsn)
                    time.sleep(0.02)
            finally:
                driver.kill()
    finally:
        done.set()
        for thread in threads:
            thread.join()
    last = Driver(tmp_path, dsn, "now")
    try:
        assert last.process.wait(PATIENCE_SECONDS) == 0, last.said()
    finally:
        last.kill()
    streamed = written(tmp_path / "out")
    archived = one(database, "SELECT array_agg(id ORDER BY id) FROM pgqueue_archived_message")

    assert len(worked) > 0
    assert len(streamed) > 0
    assert sorted(streamed + worked) == archived
    assert one(database, "SELECT count(*) FROM pgqueue_message") == 0
