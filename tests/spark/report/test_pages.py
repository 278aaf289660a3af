"""The page of one channel, the depth of a queue, and channels that are alike."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from django_pgqueue.spark.cli import main
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.report.read import read_report_data
from tests.spark.report.metrics import lake_of, metric, of_each_grain
from tests.spark.report.page import reported
from tests.spark.report.test_report import NOON


def two_channels(path: Path) -> Path:
    rows = [metric(NOON, "mail", completed=95, dead=5, attempts=110, run_seconds=50.0, capacity_share=1.0)]
    for channel, completed, dead in (("acme", 80, 5), ("bolt", 15, 0)):
        for handler in (None, "shop.confirm"):
            rows.append(
                metric(
                    NOON,
                    "mail",
                    channel,
                    handler,
                    completed=completed,
                    dead=dead,
                    attempts=completed + dead,
                    run_seconds=completed / 2,
                    sla_seconds=3.0,
                    sla_breaches=dead,
                    total_max_seconds=7.0,
                    wait_p95_seconds=2.0,
                    capacity_share=completed / 95,
                )
            )
    lake_of(path, of_each_grain(*rows))
    return path


def test_the_page_of_a_channel_has_its_numbers_and_no_name_of_another(tmp_path: Path) -> None:
    page = reported(two_channels(tmp_path / "lake"), queues=["mail"], channel="acme")

    assert "Report of acme" in page.text
    assert page.tables["The channel"][1][:4] == ["acme", "80", "5", "5.9 %"]
    assert page.tables["Handlers"][1][:5] == ["acme", "shop.confirm", "85", "0", "5"]
    assert page.tables["Channels with an SLA"][1][:6] == ["acme", "acme", "3 s", "85", "5", "94 %"]
    assert "age at its end: 7 s" in page.text
    for other in ("bolt", "Noisy neighbours", "Capacity by channel", "Top movers"):
        assert other not in page.text


def test_a_channel_that_the_lake_does_not_know_is_an_error(tmp_path: Path) -> None:
    lake = two_channels(tmp_path / "lake")

    with pytest.raises(PipelineError, match="no metrics of the channel 'acme' of the queue 'default'"):
        reported(lake, queues=["default"], channel="acme")


def test_the_channel_of_several_queues_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = str(two_channels(tmp_path / "lake"))

    assert main(["report", "--lake", lake, "--queue", "mail", "--queue", "x", "--channel", "acme"]) == 1

    assert "give --queue once" in capsys.readouterr().err


def test_the_depth_is_what_was_enqueued_and_is_settled_later(tmp_path: Path) -> None:
    """Ten messages at noon; three are settled an hour later, two in the hour after, and five the next day."""
    hours = [
        metric(NOON, enqueued=10),
        metric(NOON + timedelta(hours=1), completed=2, purged=1),
        metric(NOON + timedelta(hours=8), completed=1, dead=1),
        metric(NOON + timedelta(days=1), completed=5),
    ]
    rows = [row for row in of_each_grain(*hours) if row["grain"] != "day"]
    rows += [
        row | {"grain": "day"}
        for row in (
            metric(NOON.replace(hour=0), enqueued=10, completed=3, purged=1, dead=1),
            metric(NOON.replace(hour=0) + timedelta(days=1), completed=5),
        )
    ]
    lake = lake_of(tmp_path / "lake", rows)

    def files(grain: str, days: list[date]) -> list[Path]:
        return [file for file in lake.paths("metrics", days) if f"grain={grain}" in file.parts]

    today, tomorrow = NOON.date(), NOON.date() + timedelta(days=1)
    whole, first = (read_report_data(files, *days) for days in ([[today, tomorrow]], [[today], *[]]))
    until = read_report_data(files, [today], later=[tomorrow])

    assert whole.history["mail"]["depth"][-25:] == [10] + [7] * 7 + [5] * 16 + [0]
    assert until.history["mail"]["depth"][-9:] == [10] + [7] * 7 + [5]
    assert first.history["mail"]["depth"][-1] == 0, "without the later days, nothing waits at the end"


def test_a_period_without_metrics_by_minute_is_shown_by_hour(tmp_path: Path) -> None:
    rows = of_each_grain(metric(NOON, completed=1))
    lake = lake_of(tmp_path / "lake", [row for row in rows if row["grain"] != "minute"])

    assert "Plots by hour" in reported(lake.path).text


def test_channels_that_are_alike_are_not_repeated(tmp_path: Path) -> None:
    rows = [metric(NOON, "mail", completed=300, run_seconds=300.0)]
    rows += [metric(NOON, "mail", f"tenant {n:02}", completed=10, run_seconds=10.0 + n % 2) for n in range(30)]
    lake = lake_of(tmp_path / "lake", of_each_grain(*rows))

    page = reported(lake.path)

    assert "The 30 channels are alike: each had between 3.3 % and 3.7 % of its queue's time in handlers." in page.text
    shown = page.tables["Channels by time in handlers, the first 10"][1:]
    assert len(shown) == 11
    assert shown[-1][:5] == ["", "20 more", "", "200", "0"]


def test_a_channel_that_stands_out_has_a_chart(tmp_path: Path) -> None:
    rows = [metric(NOON, "mail", completed=9, run_seconds=100.0)]
    rows += [metric(NOON, "mail", f"tenant {n}", completed=1, run_seconds=40.0 if n == 7 else 5.0) for n in range(9)]

    assert "are alike" not in reported(lake_of(tmp_path / "lake", of_each_grain(*rows)).path).text
