"""A disk that takes no more is one line that says what to do, and the lake is as it was."""

from __future__ import annotations

import errno
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from django_pgqueue.spark import schema
from django_pgqueue.spark.cli import main
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.session import run_tasks
from tests.spark.rows import fill_archive
from tests.spark.test_compact import DAY, digest, problems, rows
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


def test_a_task_on_spark(spark: Any) -> None:
    """Its error is no exception of Spark, with pages of text."""

    def fail(task: int) -> None:
        raise OSError(errno.EFBIG, "no matter")

    with pytest.raises(PipelineError) as raised:
        run_tasks(spark, [1, 2], fail)

    assert str(raised.value) == SAID.strip()


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
