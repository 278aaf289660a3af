"""The forecast: what comes by the hour of the day, what waits, and how both end in the database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from django_pgqueue.spark.export.job import export
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.load.forecast import load_forecast
from django_pgqueue.spark.source import Source
from django_pgqueue.spark.transforms.forecast import write_forecast
from django_pgqueue.spark.transforms.rollup import rollup
from tests.spark.rows import DAY, fill_archive
from tests.support.sessions import Session as Database

NOON = datetime(2026, 3, 16, 12, tzinfo=UTC)


def test_the_forecast_is_what_was_seen_at_the_same_hour(
    spark: Any, source: Source, database: Database, lake: Path
) -> None:
    # 12 messages in the hour of noon on the first day, 6 on the second; 4 at three in the morning of the second. The
    # hour that has just begun is not a whole one.
    second, third = DAY + timedelta(days=1), DAY + timedelta(days=2)
    for day, hour, messages in ((DAY, 12, 12), (second, 12, 6), (second, 3, 4), (third, 12, 20)):
        fill_archive(
            database, messages, day=day, created_at=f"{{day}} + interval '{hour} hours' + i * interval '1 minute'"
        )
    database.execute(
        "INSERT INTO pgqueue_message (channel_id, handler, dequeue_at)"
        " SELECT c.id, 'shop.confirm', timestamptz '2026-03-16' + CASE WHEN i < 30 THEN time '11:00' ELSE '14:30' END"
        " FROM pgqueue_channel AS c, generate_series(0, 34) AS i WHERE c.name = 'default'"
    )
    export(source, lake)
    opened = Lake.open(lake)
    with opened.writing() as writing:
        writing.commit("archive", "test", state={"exported_at": (NOON + timedelta(minutes=25)).isoformat()})
    rollup(spark, opened)

    written = write_forecast(opened, source, now=NOON + timedelta(minutes=30))
    load_forecast(source, opened)

    rows = opened.delta("forecast").to_pyarrow_table().sort_by("hour_at").to_pylist()
    hours = {row["hour_at"].hour: row for row in rows}
    assert written == len(rows) == 24
    assert [row["hour_at"] for row in rows] == [NOON + timedelta(hours=n) for n in range(24)]
    # Half of the present hour is over. Its capacity is that of the best hour, 12.
    assert hours[12]["expected_enqueued"] == pytest.approx((12 + 6) / 2 / 2)
    assert hours[12]["expected_capacity"] == pytest.approx(12 / 2)
    assert hours[12]["expected_backlog"] == pytest.approx(30 + 4.5 - 6)
    assert hours[13]["expected_enqueued"] == 0
    assert hours[13]["expected_backlog"] == pytest.approx(28.5 - 12)
    # Five messages are scheduled for half past two.
    assert hours[14]["expected_backlog"] == pytest.approx(16.5 + 5 - 12)
    assert hours[15]["expected_backlog"] == 0
    # Three in the morning was seen twice: the second time nothing came.
    assert hours[3]["expected_enqueued"] == pytest.approx(4 / 2)
    loaded = database.execute(
        "SELECT hour_at, queue, channel, expected_backlog FROM pgqueue_backlog_forecast ORDER BY hour_at"
    ).fetchall()
    assert loaded == [(row["hour_at"], "default", "default", row["expected_backlog"]) for row in rows]
