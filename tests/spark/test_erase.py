"""Erase: no row and no file of a lake has the tenant afterwards, and the rest is as it was."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.core.management import call_command

from django_pgqueue.spark import schema
from django_pgqueue.spark.cli import main
from django_pgqueue.spark.export.job import export
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.source import Source
from tests.spark.rows import DAY, fill_archive, fill_dead_letters

Database = psycopg.Connection[Any]
CANARY = "canary-2c9e"
HALF = f"CASE WHEN i % 2 = 0 THEN 'acme {CANARY}' ELSE 'other' END"
TENANT = f"acme {CANARY}"
PAYLOAD = f"""jsonb_build_object('of', CASE WHEN {{channel}} = 'other' THEN 'other' ELSE '{CANARY}' END)"""


@pytest.fixture
def filled(database: Database, source: Source, lake: Path) -> Path:
    """A lake with two exports, of two days, of which one tenant has half of the rows; and metrics of a rollup."""
    database.execute("SELECT pgqueue_channel_set('default', %s)", [TENANT])
    database.execute("UPDATE pgqueue_channel SET context = %s WHERE name = %s", [f'{{"of": "{CANARY}"}}', TENANT])
    for days in (0, 1):
        day = DAY.replace(day=DAY.day + days)
        fill_archive(database, 20, day, channel=HALF, payload=PAYLOAD)
        fill_dead_letters(database, 4, day, channel=HALF, payload=PAYLOAD)
        export(source, lake)
    opened = Lake.open(lake)
    with opened.writing() as writing:
        path = writing.stage("metrics", f"grain=day/day={DAY}")
        named = [{"queue": "default", "channel": channel} for channel in (TENANT, "other", None)]
        columns = pa.schema([column for column in schema.arrow_schema("metrics") if column.name != "grain"])
        pq.write_table(pa.Table.from_pylist(named, columns), path)
        writing.commit("metrics", "rollup", [writing.staged(path)])
    return lake


def rows(lake: Path) -> dict[str, list[dict[str, Any]]]:
    opened = Lake.open(lake)
    return {
        table: [row for path in opened.paths(table) for row in pq.read_table(path).to_pylist()]
        for table in schema.TABLES
    }


def grep(lake: Path) -> list[str]:
    """Files with the canary: in their bytes, or behind the compression of Parquet."""
    found = []
    for path in sorted(lake.rglob("*")):
        if path.is_file() and (
            CANARY.encode() in path.read_bytes()
            or (path.suffix == ".parquet" and CANARY in str(pq.read_table(path).to_pylist()))
        ):
            found.append(path.relative_to(lake).as_posix())
    return found


def erase(lake: Path, *more: str, channel: str = TENANT) -> int:
    return main(["erase", "--lake", str(lake), "--queue", "default", "--channel", channel, *more])


def test_no_file_has_the_tenant_and_the_rest_is_as_it_was(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = rows(filled)
    assert len({path.split("/")[0] for path in grep(filled)}) == 4
    assert erase(filled, "--dry-run") == 0
    summary = "20 archive, 1 channel, 4 dead_letter, 1 metrics"
    assert f"would be erased in the lake: {summary}" in capsys.readouterr().out
    assert rows(filled) == before
    assert erase(filled) == 0
    assert f"is erased in the lake: {summary}" in capsys.readouterr().out
    assert grep(filled) == []
    for table, found in rows(filled).items():
        assert found == [row for row in before[table] if TENANT not in row.values()], table
    assert erase(filled) == 0
    assert "no rows" in capsys.readouterr().out
    assert main(["verify", "--lake", str(filled)]) == 0


def test_days_without_the_tenant_are_not_written(filled: Path) -> None:
    names = {path: path.stat().st_ino for path in filled.rglob("*.parquet")}
    commits = Lake.open(filled).versions
    assert erase(filled, channel="never seen") == 0
    assert {path: path.stat().st_ino for path in filled.rglob("*.parquet")} == names
    assert Lake.open(filled).versions == commits


def test_the_next_rollup_computes_the_days_again(filled: Path) -> None:
    from django_pgqueue.spark.transforms.rollup import find_touched

    opened = Lake.open(filled)
    with opened.writing() as writing:
        writing.commit("metrics", "rollup", state=find_touched(opened).state() | {"pending": []})
    assert find_touched(opened).days == set()
    erase(filled)
    assert {day.day for day in find_touched(opened).days} == {DAY.day, DAY.day + 1}


def test_the_database_learns_how_many_rows_the_lake_has_and_retention_goes_on(
    filled: Path, dsn: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGQUEUE_SOURCE", dsn)
    partition = f"pgqueue_archived_message_{DAY:%Y%m%d}"
    is_exported = f"SELECT pgqueue_is_exported('{partition}', '{DAY}')"
    assert database.execute(is_exported).fetchone() == (True,)
    database.execute("DELETE FROM pgqueue_archived_message WHERE channel = %s", [TENANT])
    assert database.execute(is_exported).fetchone() == (False,)
    assert erase(filled) == 0
    assert database.execute(is_exported).fetchone() == (True,)


def test_another_name_of_a_released_channel_goes_too(source: Source, database: Database, lake: Path) -> None:
    database.execute("SELECT pgqueue_channel_set('default', 'acme')")
    old = "UPDATE pgqueue_channel SET name = format('acme (released %s)', id), released_at = now() WHERE name = 'acme'"
    database.execute(old)
    [(name,)] = database.execute("SELECT name FROM pgqueue_channel WHERE name LIKE 'acme (%'").fetchall()
    fill_archive(database, 3, channel=f"'{name}'")
    fill_archive(database, 3, channel="'acme (released 0)'")
    export(source, lake)
    erase(lake, channel="acme")
    assert {row["channel"] for row in rows(lake)["archive"]} == {"acme (released 0)"}
    assert [row["name"] for row in rows(lake)["channel"] if "released" in row["name"]] == []


@pytest.mark.parametrize("table", ["archive", "channel"])
def test_a_damaged_file_is_named(filled: Path, table: str, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = Lake.open(filled).paths(table)[0]
    damaged.write_bytes(b"damaged")

    assert erase(filled) == 1

    said = capsys.readouterr().err
    assert said.startswith(f"{damaged} cannot be read, it is damaged or gone: see with verify what else is")
    assert said.count("\n") == 1


def test_a_killed_erase_is_finished_by_the_next(filled: Path) -> None:
    before = rows(filled)
    command = [sys.executable, "-m", "django_pgqueue.spark", "erase", "--lake", str(filled)]
    command += ["--queue", "default", "--channel", TENANT]
    commits = len(list(filled.glob("*/_delta_log/*.json")))
    process = subprocess.Popen(command)
    while process.poll() is None and len(list(filled.glob("*/_delta_log/*.json"))) == commits:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    middle = rows(filled)  # completes the commit of the killed run
    for table, found in middle.items():
        assert [row for row in found if TENANT not in row.values()] == [
            row for row in before[table] if TENANT not in row.values()
        ]
    assert erase(filled) == 0
    assert grep(filled) == []
    assert main(["verify", "--lake", str(filled)]) == 0


def test_the_command_erases_database_and_lake(
    filled: Path, database: Database, capfd: pytest.CaptureFixture[str], settings: Any
) -> None:
    settings.DJANGO_PGQUEUE = {"LAKE": str(filled)}
    out = StringIO()
    call_command("pgqueue", "erase", "channel", TENANT, "--lake", "--dry-run", stdout=out)
    assert grep(filled) != []
    call_command("pgqueue", "erase", "channel", TENANT, "--lake", stdout=out)
    assert grep(filled) == []
    assert database.execute(
        "SELECT count(*) FROM pgqueue_archived_message WHERE channel = %s", [TENANT]
    ).fetchone() == (0,)
    assert "would be erased: 20 archived_message" in out.getvalue()
    assert "is erased: 20 archived_message" in out.getvalue()
    said = capfd.readouterr().out
    assert "would be erased in the lake: 20 archive" in said
    assert "is erased in the lake: 20 archive" in said
