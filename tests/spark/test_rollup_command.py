"""The command rollup: all of it, in the process of the tests. So few messages need no Spark."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest

from django_pgqueue.spark.cli import main
from django_pgqueue.spark.export.job import export
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.load import COLUMNS
from django_pgqueue.spark.source import Source
from tests.spark.rows import fill_archive, fill_dead_letters
from tests.spark.truth import by_key, expected_metrics, lake_metrics
from tests.support.sessions import Session as Database

NASTY = 'a/b=c,"d"\t\\\n%20é\'; -- {x} $1'


@pytest.fixture(autouse=True)
def no_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGQUEUE_SOURCE", raising=False)


def test_metrics_reach_lake_and_database_whatever_the_names_are(
    source: Source, database: Database, dsn: str, lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    day = database.execute("SELECT (now() AT TIME ZONE 'UTC')::date - 1").fetchone()[0]
    nasty = "'" + NASTY.replace("'", "''") + "'"
    fill_archive(database, 30, day=day, queue=nasty, channel=nasty, handler=f"{nasty} || i % 2")
    fill_dead_letters(database, 10, day=day, queue=nasty, channel=nasty, reason=nasty)
    fill_archive(database, 10, day=day, channel="''")
    export(source, lake)

    status = main(["rollup", "--lake", str(lake), "--source", dsn, "--sla", f"{NASTY}/{NASTY}=2500ms"])

    output = capsys.readouterr()
    assert status == 0, output.err
    truth = expected_metrics(database, json.dumps({f"{NASTY}/{NASTY}": 2.5}))
    assert lake_metrics(lake) == truth
    loaded = by_key(database.execute(f"SELECT {', '.join(COLUMNS)} FROM pgqueue_queue_metric").fetchall())
    assert loaded == {key: row for key, row in truth.items() if key[0] != "minute"}


def test_an_empty_lake_is_no_error(source: Source, dsn: str, lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export(source, lake)

    assert main(["rollup", "--lake", str(lake), "--source", dsn]) == 0
    assert main(["rollup", "--lake", str(lake)]) == 0

    assert "Nothing is new since the last rollup." in capsys.readouterr().out
    assert lake_metrics(lake) == {}


def test_a_damaged_file_is_named_and_nothing_changes(
    source: Source, database: Database, lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_archive(database, 30)
    export(source, lake)
    [path] = lake.glob("archive/*/*.parquet")
    content = path.read_bytes()
    path.write_bytes(b"\0" * 100 + content[100:-100] + b"\0" * 100)
    before = Lake.open(lake).versions

    status = main(["rollup", "--lake", str(lake)])

    [line] = capsys.readouterr().err.splitlines()
    assert status == 1
    assert line.startswith(f"{path} cannot be read")
    assert Lake.open(lake).versions == before


def test_metrics_of_another_database_are_not_loaded(
    source: Source, database: Database, dsn: str, lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export(source, lake)
    other = psycopg.conninfo.make_conninfo(dsn, dbname="postgres")

    assert main(["rollup", "--lake", str(lake), "--source", other]) == 1

    assert "holds another database" in capsys.readouterr().err
