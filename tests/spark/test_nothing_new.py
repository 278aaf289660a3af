"""When nothing or little is new, no JVM is started: the decision is made before."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from django_pgqueue.spark.export.job import export
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.source import Source
from tests.spark.rows import DAY, fill_archive, fill_dead_letters
from tests.spark.test_load import make_metrics
from tests.support.paths import REPOSITORY
from tests.support.sessions import Session as Database

NOTHING = "Nothing is new since the last rollup."
COMMAND = """
import json, sys
from django_pgqueue.spark.cli import main
status = main(sys.argv[1:])
print(json.dumps([status, "pyspark" in sys.modules]))
"""


@pytest.fixture(autouse=True)
def no_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGQUEUE_SOURCE", raising=False)


@pytest.fixture
def rolled_up(source: Source, database: Database, lake: Path) -> Lake:
    """A lake whose rows are all in its metrics, as far as its state says."""
    fill_archive(database, 100)
    fill_dead_letters(database, 10)
    export(source, lake)
    today = database.execute("SELECT (now() AT TIME ZONE 'UTC')::date::text").fetchone()[0]
    make_metrics(lake, today, enqueued=12, completed=12)
    opened = Lake.open(lake)
    with opened.writing() as writing:
        writing.commit("metrics", "rollup", state={"rolled_up": opened.versions})
    return opened


def run_without_spark(*arguments: str) -> str:
    """Return what a command says that imports no PySpark."""
    process = subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    *said, last = process.stdout.splitlines()
    status, has_spark = json.loads(last)
    assert status == 0, process.stderr
    assert not has_spark
    return "\n".join(said)


def test_an_export_decides_it_before_spark_even_on_a_cluster(dsn: str, rolled_up: Lake) -> None:
    ran = run_without_spark("export", "--lake", str(rolled_up.path), "--source", dsn, "--master", "local[1]")

    assert "nothing is new" in ran


def test_an_export_of_many_small_days_needs_no_spark(dsn: str, database: Database, lake: Path) -> None:
    """The first export of a project that has kept its archive for some weeks."""
    for number in range(20):
        fill_archive(database, 10, DAY + timedelta(days=number))

    ran = run_without_spark("export", "--lake", str(lake), "--source", dsn)

    assert "Exported 200 archived messages" in ran
    assert len(Lake.open(lake).rows["archive"]) == 20


def test_a_rollup_without_a_source_decides_it_before_spark(rolled_up: Lake) -> None:
    ran = run_without_spark("rollup", "--lake", str(rolled_up.path))

    assert ran == NOTHING


def test_a_rollup_with_a_source_loads_without_spark_and_once(dsn: str, rolled_up: Lake) -> None:
    rollup = ("rollup", "--lake", str(rolled_up.path), "--source", dsn)

    assert "Loaded into the database: 1 days, 1 rows" in run_without_spark(*rollup)
    assert run_without_spark(*rollup) == NOTHING
