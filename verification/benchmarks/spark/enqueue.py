"""Bulk enqueue from Spark beside one COPY of a process without Spark; both end with messages ready to be served."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import psycopg

from django_pgqueue.spark.session import session

from .database import DATABASE, archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHANNELS = 200
PARTS = 4
PAYLOAD = '{{"order":{n},"customer":"c4ca4238a0b923820dcc509a6f75849b","items":[1,5,9]}}'


def measure(rows: int, rounds: int) -> list[str]:
    """The lines of the report. The first round warms up and does not count."""
    with (
        archive(0) as cluster,
        tempfile.TemporaryDirectory(prefix="pgqueue-benchmark-") as folder,
        session("benchmark", "local[*,4]") as spark,
        cluster.connect(DATABASE) as database,
    ):
        source = cluster.url(DATABASE)
        database.execute(
            "SELECT pgqueue_channel_set('default', 'tenant ' || i) FROM generate_series(0, %s) AS i", [CHANNELS - 1]
        )
        frame = Path(folder) / "frame"
        write_frame(spark, frame, rows)
        contestants: dict[str, Callable[[], None]] = {
            "spark": lambda: enqueue(spark, frame, source),
            "copy": lambda: copy(source, rows),
        }
        seconds: dict[str, list[float]] = {name: [] for name in contestants}
        for number in range(rounds + 1):
            for name, run in contestants.items():
                database.execute("TRUNCATE pgqueue_message, pgqueue_arrival, pgqueue_lane")
                database.execute("CHECKPOINT")
                began = time.perf_counter()
                run()
                took = time.perf_counter() - began
                assert database.execute("SELECT count(*) FROM pgqueue_message").fetchone() == (rows,)
                if number:
                    seconds[name].append(took)
    lines = [f"enqueue of {rows:,} messages on {CHANNELS} channels, {rounds} rounds in turn"]
    for name, values in seconds.items():
        times = ", ".join(f"{value:.2f}" for value in values)
        lines.append(f"  {name}: {rows / median(values):,.0f} rows/s ({times} s)")
    return lines


def write_frame(spark: SparkSession, path: Path, rows: int) -> None:
    frame = spark.range(0, rows, 1, PARTS).selectExpr(
        "'shop.confirm_order' AS handler",
        "to_json(named_struct('order', id, 'customer', md5(string(id)), 'items', array(1, 5, 9))) AS payload",
        f"concat('tenant ', id % {CHANNELS}) AS channel",
    )
    frame.write.parquet(str(path))


def enqueue(spark: SparkSession, frame: Path, source: str) -> None:
    spark.read.parquet(str(frame)).write.format("pgqueue").option("source", source).mode("append").save()


def copy(source: str, rows: int) -> None:
    """Into the table of messages itself: not safe to be tried again."""
    with psycopg.connect(source) as connection, connection.cursor() as cursor:
        ids = [row[0] for row in cursor.execute("SELECT id FROM pgqueue_channel WHERE name LIKE 'tenant%' ORDER BY id")]
        with cursor.copy("COPY pgqueue_message (channel_id, handler, payload) FROM STDIN") as stream:
            for first in range(0, rows, 1000):
                lines = [
                    f"{ids[n % CHANNELS]}\tshop.confirm_order\t{PAYLOAD.format(n=n)}\n"
                    for n in range(first, min(first + 1000, rows))
                ]
                stream.write("".join(lines))
