"""After a kill of any process of an export, each row is in the lake once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from django_pgqueue.embedded import Cluster, EmbeddedError, temporary_cluster
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.export.job import export
from django_pgqueue.spark.export.task import ExportOptions
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.source import Source
from tests.spark.rows import DAY, fill_archive, fill_dead_letters
from tests.spark.test_export import ARCHIVE, LETTERS, expected, ids
from tests.support.paths import REPOSITORY
from tests.support.sessions import Session as Database

DAYS, ROWS = 6, 200
PATIENCE_SECONDS = 250  # seconds
TRIES = 8
TEXT = "jsonb_build_object('text', repeat(md5(i::text), 30))"
pytestmark = pytest.mark.timeout(2 * PATIENCE_SECONDS)
# An export with ranges so small that there are many; without a master it runs without Spark.
DRIVER = """
import sys
from pathlib import Path
from django_pgqueue.spark.export import job
from django_pgqueue.spark.export.job import export
from django_pgqueue.spark.export.task import ExportOptions
from django_pgqueue.spark.source import Source

master, lake = sys.argv[1:]
job.FEW_RANGES = 1000
export(Source.from_environment(), Path(lake), ExportOptions(master or None, memory="512m", range_bytes=200_000))
"""
MOMENTS = {
    "reading": "_pgqueue/staging/*/archive/day=*/*.parquet",
    "one table committed": "dead_letter/_delta_log/*[1-9].json",
    "placing": "archive/day=*/*.parquet",
    "committed": "archive/_delta_log/*[1-9].json",
}


def fill_days(database: Database, shift: int = 0) -> None:
    for number in range(DAYS):
        fill_archive(database, ROWS, DAY + timedelta(days=number + shift), payload=TEXT)
    fill_dead_letters(database, ROWS, payload=TEXT)


def start(dsn: str, lake: Path, master: str = "") -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, master, str(lake)],
        env={**os.environ, "PGQUEUE_SOURCE": dsn, "SPARK_LOCAL_IP": "127.0.0.1"},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )


def new_files(lake: Path, pattern: str) -> set[Path]:
    return set(lake.glob(pattern))


def kill_when(happens: Callable[[], Any], driver: subprocess.Popen[bytes]) -> bool:
    """Kill it as soon as that is so. False: it was done before."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not happens():
        assert time.monotonic() < deadline
        if driver.poll() is not None:
            return False
        time.sleep(0.0005)
    driver.kill()
    return driver.wait() == -signal.SIGKILL


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_driver_that_is_killed(
    moment: str, spark: Any, dsn: str, source: Source, database: Database, lake: Path
) -> None:
    killed = False
    for attempt in range(TRIES):
        fill_days(database, shift=attempt)
        before = new_files(lake, MOMENTS[moment])
        killed = kill_when(lambda seen=before: new_files(lake, MOMENTS[moment]) - seen, start(dsn, lake))
        if killed:
            break
    assert killed

    export(source, lake)

    assert ids(lake) == expected(database)
    assert ids(lake, "dead_letter") == expected(database, LETTERS)
    assert list(Lake.open(lake).staging.iterdir()) == []


def test_a_driver_that_is_killed_while_its_tasks_run_on_spark(
    spark: Any, dsn: str, source: Source, database: Database, lake: Path
) -> None:
    fill_days(database)
    driver = start(dsn, lake, master="local[2,4]")
    try:
        assert kill_when(lambda: new_files(lake, MOMENTS["reading"]), driver)
        # Its workers may go on for a moment: they write to a folder that is gone, and commit nothing.
        export(source, lake)
    finally:
        kill_group(driver.pid)

    assert ids(lake) == expected(database)
    assert ids(lake, "dead_letter") == expected(database, LETTERS)


def kill_group(group: int) -> None:
    """The JVM and its workers end with their driver; here they are not waited for."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def test_an_export_that_could_not_place_its_files_is_repeated_by_the_next(
    source: Source, database: Database, lake: Path
) -> None:
    """The dead letters are committed before the archive: each table goes on from its own horizon."""
    fill_archive(database, ROWS)
    fill_dead_letters(database, ROWS)
    Lake.open(lake, create=True)
    obstacle = lake / "archive" / f"day={DAY}"
    obstacle.touch()

    with pytest.raises(PipelineError, match="cannot be written"):
        export(source, lake)
    assert Lake.open(lake).exported() == 0 < Lake.open(lake).exported("dead_letter")
    obstacle.unlink()
    fill_archive(database, ROWS)
    fill_dead_letters(database, ROWS)
    export(source, lake)

    assert ids(lake) == expected(database)
    assert ids(lake, "dead_letter") == expected(database, LETTERS)


def test_a_python_worker_that_is_killed(spark: Any, source: Source, database: Database, lake: Path) -> None:
    fill_days(database)
    jvm = spark.sparkContext._gateway.proc.pid
    with ThreadPoolExecutor(1) as pool:
        exported = pool.submit(export, source, lake, ExportOptions("local", range_bytes=100_000))
        victims = set()
        while len(victims) < 2 and not exported.done():
            if new_files(lake, MOMENTS["reading"]):
                victims |= {pid for pid in workers(jvm) - victims if kill(pid)}
            time.sleep(0.01)
        exported.result()

    assert len(victims) >= 2
    assert ids(lake) == expected(database)
    assert ids(lake, "dead_letter") == expected(database, LETTERS)


def workers(jvm: int) -> set[int]:
    """The Python workers: children of Spark's daemon, itself a child of the JVM."""
    parents = defaultdict(set)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.read_text().rpartition(")")[2].split()[1])].add(int(stat.parent.name))
        except OSError:
            continue
    return {worker for daemon in parents[jvm] for worker in parents[daemon]}


def kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def server() -> Iterator[Cluster]:
    """A server of its own, with our tables, that may be killed."""
    with temporary_cluster() as cluster:
        cluster.ensure_database("killed")
        url = cluster.url("killed")
        environment = {**os.environ, "DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "testproject.settings"}
        manage = [sys.executable, str(REPOSITORY / "testproject" / "manage.py"), "migrate", "--skip-checks", "-v0"]
        subprocess.run(manage, env=environment, check=True)
        yield cluster


def test_a_server_that_is_killed_and_started_again(server: Cluster, lake: Path) -> None:
    dsn = server.url("killed")
    with psycopg.connect(dsn, autocommit=True) as database:
        fill_days(database)
    driver = start(dsn, lake)
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not new_files(lake, MOMENTS["reading"]):
            assert driver.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.0005)
        os.kill(server.pid, signal.SIGKILL)
        started_again(server)

        assert driver.wait(PATIENCE_SECONDS) == 0
    finally:
        driver.kill()

    with psycopg.connect(dsn, autocommit=True) as database:
        assert ids(lake) == expected(database)
        assert ids(lake, "dead_letter") == expected(database, LETTERS)


def started_again(server: Cluster) -> None:
    """Backends of the server before may still be ending, and it may still look alive."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            server.start()
            psycopg.connect(server.url("killed")).close()
        except (EmbeddedError, psycopg.OperationalError):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        else:
            return


def test_no_statement_of_an_export_lasts_longer_than_a_range(
    spark: Any, source: Source, database: Database, lake: Path
) -> None:
    """Dead rows cannot be removed while a snapshot is held: never for the length of the job."""
    fill_days(database)
    done = threading.Event()
    statements: dict[tuple[int, Any], list[float]] = defaultdict(list)

    def look() -> None:
        while not done.wait(0.002):
            for pid, began in database.execute(
                "SELECT pid, xact_start FROM pg_stat_activity"
                " WHERE application_name = 'pgqueue spark' AND backend_xmin IS NOT NULL"
            ):
                statements[pid, began].append(time.monotonic())

    began = time.monotonic()
    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        export(source, lake, ExportOptions("local", range_bytes=200_000))
    finally:
        done.set()
        watcher.join()
    whole = time.monotonic() - began

    assert len(statements) > 10
    assert max(times[-1] - times[0] for times in statements.values()) < whole / 4
    assert database.execute(f"SELECT count(*) FROM {ARCHIVE}").fetchone()[0] == DAYS * ROWS
