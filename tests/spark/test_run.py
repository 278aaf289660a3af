"""The command run: export, rollup, load and compaction in turn, with one session."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import pytest

from django_pgqueue.spark.cli import main
from django_pgqueue.spark.lake import Lake
from tests.spark.rows import fill_archive
from tests.spark.truth import expected_metrics, lake_metrics
from tests.support.sessions import Session as Database
from tests.support.waiting import eventually

LOADED = "SELECT coalesce(sum(completed), 0) FROM pgqueue_queue_metric WHERE grain = 'day' AND level = 'queue'"


@contextmanager
def running(lake: Path, output: Path, *options: str, source: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command, again and again; what it says is in the file. It is killed at the end of the block."""
    command = [sys.executable, "-m", "django_pgqueue.spark", "run", "--lake", str(lake), *options]
    environment = {**os.environ, "PGQUEUE_SOURCE": source, "TMPDIR": str(output.parent)}
    with output.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, stdin=subprocess.DEVNULL, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def javas_of(process: subprocess.Popen[bytes]) -> list[int]:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(pid) for pid in children if b"java" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def yesterday(database: Database) -> date:
    """A day whose metrics are loaded into the database."""
    day: date = database.execute("SELECT (now() AT TIME ZONE 'UTC')::date - 1").fetchone()[0]
    return day


def loaded(database: Database) -> int:
    return int(database.execute(LOADED).fetchone()[0])


def test_one_turn_does_all_of_it(
    dsn: str, database: Database, lake: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGQUEUE_SOURCE", raising=False)
    day = yesterday(database)
    for _ in range(2):
        fill_archive(database, 50, day=day)
        assert main(["run", "--lake", str(lake), "--source", dsn, "--sla", "default=3s"]) == 0

    assert lake_metrics(lake) == expected_metrics(database, '{"default": 3}')
    assert loaded(database) == 100
    assert len(Lake.open(lake).files("archive")) == 1
    assert "Merged 0 files into 0." in capsys.readouterr().out


def test_turns_follow_each_other_on_one_session(dsn: str, database: Database, lake: Path, tmp_path: Path) -> None:
    output = tmp_path / "output"
    fill_archive(database, 1000, yesterday(database))
    with running(lake, output, "--every", "500ms", "--master", "local[1,4]", source=dsn) as process:
        eventually(lambda: loaded(database) == 1000 or process.poll() is not None, seconds=200)
        first = javas_of(process), [*tmp_path.glob("pgqueue-spark-*")]
        fill_archive(database, 1000, yesterday(database))
        eventually(lambda: loaded(database) == 2000 or process.poll() is not None, seconds=200)
        assert process.poll() is None, output.read_text()
        assert [len(each) for each in first] == [1, 1]
        # A session has a folder of its own.
        assert (javas_of(process), [*tmp_path.glob("pgqueue-spark-*")]) == first
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143

    seconds = [float(each) for each in re.findall(r"1,000 archived .* ([\d.]+) s, .* rows/s", output.read_text())]
    assert len(seconds) == 2
    assert seconds[1] < seconds[0], "the second turn must not start Java"
    assert not list(tmp_path.glob("pgqueue-spark-*"))


def test_a_turn_that_fails_is_tried_again(dsn: str, lake: Path, tmp_path: Path) -> None:
    output = tmp_path / "output"
    nowhere = "postgresql://ada:c4n4ry-9713@127.0.0.1:9/shop"
    Lake.open(lake, create=True)
    with running(lake, output, "--every", "100ms", source=nowhere) as process:
        eventually(lambda: output.read_text().count("cannot be reached") >= 5, seconds=200)
        assert process.poll() is None
    assert "c4n4ry" not in output.read_text()


def test_it_ends_when_its_java_has_ended(dsn: str, database: Database, lake: Path, tmp_path: Path) -> None:
    output = tmp_path / "output"
    fill_archive(database, 100, yesterday(database))
    with running(lake, output, "--every", "500ms", "--master", "local[1,4]", source=dsn) as process:
        eventually(lambda: loaded(database) == 100 or process.poll() is not None, seconds=200)
        [java] = javas_of(process)
        os.kill(java, signal.SIGKILL)
        assert process.wait(100) == 1
