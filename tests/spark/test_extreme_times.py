"""Dead letters of impossible times, which a SQL client or a wrong clock can write: no command fails because of them."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from django_pgqueue.spark.cli import main
from tests.spark.report.page import reported
from tests.spark.rows import DAY, fill_archive, fill_dead_letters
from tests.spark.test_export import ids

TIMES = ["-infinity", "4713-01-01 BC", "0001-12-31 BC", "0001-01-01", "9999-12-31 23:59:59.999999", "10000-01-01",
    "294276-01-01", "infinity"]  # fmt: skip


@pytest.mark.parametrize("columns", ["dead_at", "created_at", "created_at dequeue_at leased_at dead_at"])
def test_no_command_fails_because_of_the_time_of_a_dead_letter(
    dsn: str,
    database: psycopg.Connection,
    lake: Path,
    columns: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PGQUEUE_SOURCE", dsn)
    fill_archive(database, 10)
    times = ", ".join(f"'{time}'" for time in TIMES)
    at = f"(ARRAY[{times}]::timestamptz[])[1 + i]"

    for _ in range(2):
        fill_dead_letters(database, len(TIMES), **dict.fromkeys(columns.split(), at))
        for command in ("export", "rollup", "verify", "export --rescan", "rollup --all", "compact"):
            name, *options = command.split()
            assert main([name, *options, "--lake", str(lake)]) == 0, (command, capsys.readouterr().err)

    assert "The lake is whole." in capsys.readouterr().out
    assert (lake / f"metrics/grain=minute/day={DAY}").exists(), "the newest days have minutes"
    assert len(ids(lake, "dead_letter")) == 2 * len(TIMES)
    assert f"{DAY:%d %b %Y}" in reported(lake).text
