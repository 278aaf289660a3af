"""A report of a lake that is damaged, written meanwhile, or of an older version."""

# ruff: noqa: F811  (fixtures that are imported are arguments)
from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from threading import Semaphore
from typing import Any

import pyarrow.parquet as pq
import pytest

from django_pgqueue.spark.cli import main
from django_pgqueue.spark.erase import erase
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.lake import Lake
from tests.spark.report.metrics import lake_of, metric, of_each_grain
from tests.spark.report.page import reported
from tests.spark.report.test_report import NOON, small  # noqa: F401  (a fixture)

REPORTS = 8


def test_an_older_file_has_nothing_in_a_column_that_it_lacks(small: Path) -> None:
    for file in Lake.open(small).paths("metrics"):
        with pq.ParquetFile(file) as old:
            rows = old.read().drop_columns(["sla_seconds", "sla_breaches", "dead_by_reason"])
        pq.write_table(rows, file)

    page = reported(small)

    assert "SLA)" not in page.text
    assert page.tables["Queues"][1][:3] == ["mail", "100", "10"]


def test_a_damaged_file_is_named(small: Path) -> None:
    [file] = [file for file in Lake.open(small).paths("metrics") if "grain=day" in file.parts]
    file.write_bytes(file.read_bytes()[:-20])

    with pytest.raises(PipelineError, match=re.escape(str(file))):
        reported(small)


def test_an_unknown_queue_is_refused(small: Path) -> None:
    with pytest.raises(PipelineError, match="no metrics of the queue 'nobody'"):
        reported(small, queues=["nobody", "mail"])


@pytest.mark.parametrize(("until", "days"), [(10, 1), (-1, 7), (400, 7)])
def test_a_period_without_metrics_is_refused_and_the_days_that_have_some_are_named(
    tmp_path: Path, until: int, days: int
) -> None:
    rows = [metric(NOON + timedelta(days=day), completed=1) for day in (0, 1, 2, 20)]
    lake = lake_of(tmp_path / "lake", of_each_grain(*rows))
    last = (NOON + timedelta(days=until)).date()
    first = f"{last - timedelta(days=days - 1)} to " if days > 1 else ""
    said = (
        f"The lake has no metrics of {first}{last}. It has those of 2026-11-21 to 2026-11-23, 2026-12-11: choose with "
        "--until and --days, or run rollup."
    )

    with pytest.raises(PipelineError, match=f"^{re.escape(said)}$"):
        reported(lake.path, until=last, days=days)


def test_a_last_day_without_metrics_ends_a_period_that_has_some(tmp_path: Path) -> None:
    lake = lake_of(tmp_path / "lake", of_each_grain(metric(NOON, completed=3)))

    page = reported(lake.path, until=(NOON + timedelta(days=2)).date(), days=3)

    assert page.tables["Queues"][1][:2] == ["mail", "3"]


def test_a_place_that_cannot_be_written_is_named(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    for output in (tmp_path / "missing" / "report.html", tmp_path):
        assert main(["report", "--lake", str(small), "--output", str(output)]) == 1
        assert f"{output} cannot be written" in capsys.readouterr().err

    assert not list(tmp_path.glob("*.tmp"))


def test_a_report_is_of_one_commit_while_a_rollup_replaces_files(tmp_path: Path) -> None:
    rows = of_each_grain(*(metric(NOON - timedelta(days=day), completed=1) for day in range(2)))
    lake = lake_of(tmp_path / "lake", rows)

    begun = Semaphore(0)

    def replace() -> None:
        for number in range(REPORTS):
            begun.acquire()
            time.sleep(number % 5 / 100)
            lake_of(lake.path, [row | {"completed": number + 2} for row in rows], replace=True)

    with ThreadPoolExecutor(1) as pool:
        replacing = pool.submit(replace)
        totals = []
        try:
            for _ in range(REPORTS):
                begun.release()
                [row] = reported(lake.path).tables["Queues"][1:]
                totals.append(int(row[1]))
        finally:
            # After a failure the other one may not wait for ever.
            begun.release(REPORTS)
        replacing.result()

    assert len(set(totals)) > 1
    assert not [total for total in totals if total % 2]


@pytest.mark.parametrize("times", [1, 100])
def test_a_report_reads_again_what_an_erase_has_replaced_and_gives_up_at_last(
    small: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """An erase deletes replaced files at once, here just before the report reads one."""
    read, channels = pq.read_table, iter([*["acme"] * times, *["nobody"] * 100])

    def erased_first(path: Path, **options: Any) -> Any:
        monkeypatch.setattr(pq, "read_table", read)
        erased = next(channels)
        erase(lake, "mail", erased)
        if times > 1:
            lake_of(small, of_each_grain(metric(NOON, "mail", "acme", completed=1)))
        monkeypatch.setattr(pq, "read_table", erased_first)
        return read(path, **options)

    lake = Lake.open(small)
    monkeypatch.setattr(pq, "read_table", erased_first)

    if times == 1:
        assert [row[1] for row in reported(small).tables["Channels"][1:]] == ["default"]
    else:
        with pytest.raises(PipelineError, match=r"was changed again and again .* \(5 tries\): run it again"):
            reported(small)
