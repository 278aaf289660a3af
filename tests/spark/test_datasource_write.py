from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from django_pgqueue.spark.datasource import PgQueueDataSource
from django_pgqueue.spark.datasource.jobs import enqueue_once, is_done
from django_pgqueue.spark.datasource.options import WriteOptions
from django_pgqueue.spark.datasource.writer import Writer
from tests.support.sessions import Session as Database
from tests.support.sessions import one

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def database(database: Database) -> Database:
    """The session, on a database without traces of earlier jobs."""
    clean(database)
    return database


def clean(database: Database) -> None:
    database.execute("TRUNCATE pgqueue_ingest")
    database.execute("SELECT pgqueue_ingest_clean(NULL, '0')")


def write(frame: DataFrame, dsn: str, **options: str) -> None:
    frame.write.format("pgqueue").options(source=dsn, **options).mode("append").save()


def ledger(database: Database) -> list[tuple[Any, ...]]:
    return database.execute(
        "SELECT job, batch, created, duplicates, dropped FROM pgqueue_ingest ORDER BY job"
    ).fetchall()


WITHOUT_DJANGO = """
from django_pgqueue.spark.session import session

java = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
with session("without django", master="local[1]", memory="512m", conf=java) as spark:
    frame = spark.range(10).selectExpr("'mail.send' AS handler", "'{}' AS payload")
    frame.write.format("pgqueue").mode("append").save()
    assert spark.read.format("pgqueue").load().count() == 10
"""


def stages(database: Database) -> int:
    """Tables and rows that are left over."""
    return one(database, "SELECT count(*) FROM pg_class WHERE relname ~ '^pgqueue_stage_[0-9]+$'") + one(
        database, "SELECT count(*) FROM pgqueue_ingest_stage"
    )


def numbers(spark: SparkSession, rows: int, parts: int = 2, **columns: str) -> DataFrame:
    columns = {"handler": "'mail.send'", "payload": "to_json(struct(id AS n))"} | columns
    return spark.range(0, rows, 1, parts).selectExpr(*(f"{sql} AS {name}" for name, sql in columns.items()))


def test_a_frame_is_enqueued_with_all_its_columns(spark: SparkSession, dsn: str, database: Database) -> None:
    database.execute("SELECT pgqueue_channel_set('emails', 'a/b=c')")
    frame = numbers(
        spark,
        1,
        payload="named_struct('text', 'tab\\t \\\\ \"q\" \\n', 'list', array(1, 2), 'map', map('k', 1.5D))",
        queue="'emails'",
        channel="'a/b=c'",
        body="x'00FF'",
        headers="'{\"trace\": 1}'",
        priority="-5",
        dequeue_at="timestamp'2026-01-02 03:04:05.678901'",
        max_attempts="7L",
        backoff="INTERVAL '1.5' SECOND",
        backoff_factor="1.25D",
        backoff_longest="90",
        dedupe_key="'Ä'",
    )
    write(frame, dsn)
    message = database.execute(
        "SELECT m.*, c.queue, c.name FROM pgqueue_message AS m JOIN pgqueue_channel AS c ON c.id = m.channel_id"
    )
    row = dict(zip((column.name for column in message.description), message.fetchone(), strict=True))

    assert row["payload"] == {"text": 'tab\t \\ "q" \n', "list": [1, 2], "map": {"k": 1.5}}
    assert (row["queue"], row["name"], row["handler"]) == ("emails", "a/b=c", "mail.send")
    assert (row["body"], row["headers"], row["priority"]) == (b"\x00\xff", {"trace": 1}, -5)
    assert row["dequeue_at"] == datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
    assert (row["max_attempts"], row["backoff"], row["backoff_factor"]) == (7, timedelta(seconds=1.5), 1.25)
    assert (row["backoff_longest"], row["dedupe_key"], row["status"]) == (timedelta(seconds=90), "Ä", 1)
    assert stages(database) == 0


def test_order_keys_costs_and_limits_are_written_and_hold(spark: SparkSession, dsn: str, database: Database) -> None:
    database.execute("""SELECT pgqueue_limit_set('api', '{"max_cost": 7}')""")
    frame = numbers(
        spark, 6, 1, order_key="IF(id < 3, 'account 1', NULL)", cost="IF(id >= 3, 3, NULL)",
        limits="IF(id >= 3, array('api'), NULL)",
    )  # fmt: skip
    write(frame, dsn)
    served = database.execute("SELECT (payload ->> 'n')::integer FROM pgqueue_dequeue(p_limit => 100)").fetchall()

    assert [n for (n,) in served] == [0, 3, 4], "one message of the key, and a cost of 6 of 7"


def test_limits_that_do_not_exist_fail_the_job(spark: SparkSession, dsn: str, database: Database) -> None:
    with pytest.raises(Exception, match='there is no limit "nowhere"'):
        write(numbers(spark, 2, 1, limits="""'["nowhere"]'"""), dsn)

    assert one(database, "SELECT count(*) FROM pgqueue_message") == 0


def test_options_stand_for_columns_and_for_nulls(spark: SparkSession, dsn: str, database: Database) -> None:
    frame = numbers(spark, 4, 1, handler="IF(id < 2, NULL, 'own')", channel="CAST(NULL AS STRING)")
    write(frame, dsn, handler="common", queue="emails", channel="a", create_channels="true")
    rows = database.execute(
        "SELECT m.handler, c.queue, c.name FROM pgqueue_message AS m JOIN pgqueue_channel AS c ON c.id = m.channel_id"
        " ORDER BY m.id"
    ).fetchall()

    assert rows == [(handler, "emails", "a") for handler in ("common", "common", "own", "own")]


def test_messages_come_in_the_order_of_the_frame(spark: SparkSession, dsn: str, database: Database) -> None:
    write(numbers(spark, 5000, 3), dsn)
    served = database.execute("SELECT (payload ->> 'n')::integer FROM pgqueue_dequeue(p_limit => 5000)").fetchall()

    assert [n for (n,) in served] == list(range(5000))


def test_a_job_that_is_run_again_enqueues_nothing(spark: SparkSession, dsn: str, database: Database) -> None:
    assert not is_done("import 1", dsn)
    write(numbers(spark, 10), dsn, job="import 1")
    assert is_done("import 1", dsn)
    write(numbers(spark, 20), dsn, job="import 1")
    write(numbers(spark, 5), dsn, job="import 2")

    assert one(database, "SELECT count(*) FROM pgqueue_message") == 15
    assert ledger(database) == [("import 1", 0, 10, 0, 0), ("import 2", 0, 5, 0, 0)]
    assert stages(database) == 0


def test_a_job_that_was_done_does_not_compute_its_frame_again(
    spark: SparkSession, dsn: str, database: Database, tmp_path: Path
) -> None:
    """The source of the frame cannot be read any more when the job is run again."""
    orders = tmp_path / "orders"
    spark.range(10).selectExpr("id AS n", "id % 3 AS customer").write.parquet(str(orders))
    # The order by customer needs an exchange, which Spark computes before it makes the writer.
    frame = (
        spark.read.parquet(str(orders)).orderBy("customer").selectExpr("'mail.send' AS handler", "struct(n) AS payload")
    )
    assert enqueue_once(frame, "import 1", source=dsn, channel="a", create_channels=True)
    for file in orders.iterdir():
        file.unlink()

    assert not enqueue_once(frame, "import 1", source=dsn, channel="a", create_channels=True)
    with pytest.raises(Exception, match="parquet"):
        write(frame, dsn, job="import 1")

    sent = (
        "SELECT count(*) FROM pgqueue_message AS m JOIN pgqueue_channel AS c ON c.id = m.channel_id WHERE c.name = 'a'"
    )
    assert one(database, sent) == 10
    assert ledger(database) == [("import 1", 0, 10, 0, 0)]


def test_an_empty_frame_enqueues_nothing(spark: SparkSession, dsn: str, database: Database) -> None:
    write(numbers(spark, 0), dsn, job="nothing")
    assert ledger(database) == [("nothing", 0, 0, 0, 0)]


def test_tasks_that_die_after_their_work_and_run_again_enqueue_once(
    spark: SparkSession, dsn: str, database: Database, tmp_path: Path
) -> None:
    """Each task is killed once when its rows are copied and committed, before it can report them."""
    marks = str(tmp_path)

    class Dying(Writer):
        def write(self, iterator: Any) -> Any:
            import os
            import signal
            from pathlib import Path

            from pyspark.taskcontext import TaskContext

            staged = super().write(iterator)
            mark = Path(marks, str(TaskContext.get().partitionId()))
            if not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return staged

    class DyingSource(PgQueueDataSource):
        @classmethod
        def name(cls) -> str:
            return "pgqueue_dying"

        def writer(self, schema: Any, overwrite: bool) -> Any:
            return Dying(WriteOptions.of(self.options), schema, overwrite)

    spark.dataSource.register(DyingSource)
    numbers(spark, 3000, 3).write.format("pgqueue_dying").options(source=dsn).mode("append").save()

    assert len(list(tmp_path.iterdir())) == 3
    assert database.execute("SELECT count(*), count(DISTINCT payload ->> 'n') FROM pgqueue_message").fetchone() == (
        3000,
        3000,
    )
    assert stages(database) == 0


def test_a_queue_cannot_be_overwritten(spark: SparkSession, dsn: str) -> None:
    with pytest.raises(Exception, match="can only be appended to"):
        numbers(spark, 1).write.format("pgqueue").options(source=dsn).mode("overwrite").save()


@pytest.mark.timeout(900)
def test_workers_need_no_django(dsn: str, database: Database, tmp_path: Path) -> None:
    """In a process of its own, for which Django does not exist: it reads and enqueues, and so do its workers."""
    (tmp_path / "django").mkdir()
    (tmp_path / "django" / "__init__.py").write_text("raise ImportError('there is no Django here')")
    program = tmp_path / "program.py"
    program.write_text(WITHOUT_DJANGO)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "PGQUEUE_SOURCE": dsn}
    done = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, timeout=800)

    assert done.returncode == 0, done.stderr
    assert one(database, "SELECT count(*) FROM pgqueue_message") == 10


def test_large_payloads_go_through(spark: SparkSession, dsn: str, database: Database) -> None:
    write(numbers(spark, 12, 1, payload="to_json(struct(id AS n, repeat('Ä', 500000) AS fill))"), dsn)
    assert one(database, "SELECT sum(length(payload ->> 'fill')) FROM pgqueue_message") == 12 * 500000
