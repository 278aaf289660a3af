"""A disk that takes no more is one line that says what to do, and the lake is as it was."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from django_pgqueue.spark import schema
from django_pgqueue.spark.cli import main
from django_pgqueue.spark.export.job import export
from django_pgqueue.spark.export.plan import make_plan
from django_pgqueue.spark.export.task import perform
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.source import Source
from django_pgqueue.spark.transforms.rollup import DayTask, compute_day
from tests.spark.rows import fill_archive
from tests.spark.test_compact import DAY, add, compact, digest, problems, rows
from tests.spark.test_export import expected, ids
from tests.support.sessions import Session as Database

SAID = "The lake cannot be written: File too large. Raise the limit of the size of files, and run it again.\n"
SMALL_BYTES = 6_000


@contextmanager
def a_small_disk() -> Iterator[None]:
    """No file can be larger than SMALL_BYTES: the system refuses to write more to it, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_an_export(dsn: str, database: Database, lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill_archive(database, 500, payload="to_jsonb(md5(i::text))")
    command = ["export", "--lake", str(lake), "--source", dsn]
    Lake.open(lake, create=True)

    with a_small_disk():
        assert main(command) == 1

    assert capsys.readouterr().err == SAID
    assert Lake.open(lake).files("archive") == []
    assert main(command) == 0
    assert ids(lake) == expected(database)


def test_a_rollup(source: Source, database: Database, lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill_archive(database, 500)
    export(source, lake)

    with a_small_disk():
        assert main(["rollup", "--lake", str(lake)]) == 1

    assert capsys.readouterr().err == SAID
    assert Lake.open(lake).files("metrics") == []
    assert main(["rollup", "--lake", str(lake)]) == 0


def test_tasks_return_it_because_spark_would_make_pages_of_it(
    source: Source, database: Database, lake: Path, tmp_path: Path
) -> None:
    fill_archive(database, 500, payload="to_jsonb(md5(i::text))")
    export(source, lake)
    [archive] = Lake.open(lake).paths("archive")
    [task] = [task for task in make_plan(database, {}, {}).tasks if task.table == "archive"]

    with a_small_disk():
        read = perform(task, source, str(tmp_path))
        computed = compute_day(
            DayTask(date(2026, 3, 14), ("minute",), (("archive", str(archive)),), ()), str(tmp_path), {}
        )

    assert (read.failure, computed.failure) == (SAID.strip(), SAID.strip())


def test_a_compaction(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Lake.open(lake, create=True)
    for n in range(3):
        add(made, range(n * 50, n * 50 + 50))
    before = rows(made)

    with a_small_disk():
        assert compact(made) == 1

    assert capsys.readouterr().err == SAID
    assert rows(made) == before
    assert problems(made) == []


def test_an_erase(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Lake.open(lake, create=True)
    with made.writing() as writing:
        staged = writing.stage("archive", DAY)
        both = [{"id": n, "queue": "default", "channel": f"tenant {n % 2}", "payload": digest(n)} for n in range(200)]
        pq.write_table(pa.Table.from_pylist(both, schema.arrow_schema("archive")), staged)
        writing.commit("archive", "export", [writing.staged(staged)])
    before = rows(made)

    with a_small_disk():
        assert main(["erase", "--lake", str(lake), "--queue", "default", "--channel", "tenant 1"]) == 1

    assert capsys.readouterr().err == SAID
    assert rows(made) == before
    assert problems(made) == []
