"""The command export: what it says, its status, and what it never shows."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest

from django_pgqueue.spark.cli import main
from django_pgqueue.spark.lake import Lake
from tests.spark.rows import fill_archive

CANARY = "canary-9f3b17"


def test_it_says_what_it_did(
    dsn: str, database: psycopg.Connection[Any], lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_archive(database, 1000)

    assert main(["export", "--lake", str(lake), "--source", dsn]) == 0
    said = capsys.readouterr()
    assert (
        "Exported 1,000 archived messages and 0 dead letters, and the configuration of 1 channels: 2 files" in said.out
    )
    assert said.err == ""
    assert main(["export", "--lake", str(lake), "--source", dsn]) == 0
    assert "nothing is new" in capsys.readouterr().out


def test_a_loss_is_a_warning_and_a_status(
    dsn: str, database: psycopg.Connection[Any], lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_archive(database, 10)
    main(["export", "--lake", str(lake), "--source", dsn])
    database.execute("DROP TABLE pgqueue_archived_message_20260314")
    capsys.readouterr()

    assert main(["export", "--lake", str(lake), "--source", dsn]) == 1
    assert "Warning: The partition of 2026-03-14 was dropped" in capsys.readouterr().err


def test_the_password_of_the_source_is_nowhere(
    dsn: str, database: psycopg.Connection[Any], lake: Path, tmp_path: Path
) -> None:
    """Not in the lake, not in temporary files while tasks run, not in what is printed, not in arguments."""
    fill_archive(database, 3000, payload="jsonb_build_object('text', repeat(md5(i::text), 100))")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    seen: list[str] = []
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.05):
            seen.extend(found_in(tmp_path))
            seen.extend(found_in_arguments())

    environment = {
        **os.environ,
        "PGQUEUE_SOURCE": f"{dsn}&password={CANARY}",
        "TMPDIR": str(temporary),
        "SPARK_LOCAL_DIRS": str(temporary),
    }
    command = [sys.executable, "-m", "django_pgqueue.spark", "export", "--lake", str(lake), "--master", "local[2,4]"]
    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        exported = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280, check=False)
    finally:
        done.set()
        watcher.join()

    assert exported.returncode == 0, exported.stderr
    assert CANARY not in exported.stdout + exported.stderr
    assert seen == []
    assert found_in(tmp_path) == []
    assert sum(file.rows for file in Lake.open(lake).files("archive")) == 3000


def found_in(folder: Path) -> list[str]:
    found = []
    for path in folder.rglob("*"):
        try:
            if path.is_file() and CANARY.encode() in path.read_bytes():
                found.append(str(path))
        except OSError:
            continue
    return found


def found_in_arguments() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if CANARY.encode() in path.read_bytes():
                found.append(str(path))
        except OSError:
            continue
    return found
