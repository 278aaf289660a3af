"""From the archive to the page: what it says is what PostgreSQL says of its own tables."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg

from django_pgqueue.charts import value_text
from django_pgqueue.spark.cli import main
from django_pgqueue.spark.export.job import export
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.source import Source
from django_pgqueue.spark.transforms.rollup import rollup
from tests.spark.report.page import reported
from tests.spark.rows import DAY, fill_archive, fill_dead_letters

SETTLED = """
WITH settled AS (
    SELECT channel, created_at, dequeue_at, leased_at, archived_at AS settled_at, false AS dead
    FROM pgqueue_archived_message
    UNION ALL
    SELECT channel, created_at, dequeue_at, leased_at, dead_at, true FROM pgqueue_dead_letter
)
"""
WAITS = """
SELECT extract(epoch FROM wait)::float8
FROM unnest((
    SELECT percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY leased_at - dequeue_at) FROM settled
)) AS wait
"""
TENANTS = """
SELECT channel, count(*)::text, (count(*) FILTER (WHERE dead OR settled_at - created_at > interval '2.5 seconds'))::text
FROM settled GROUP BY channel ORDER BY channel
"""


def test_the_page_says_what_the_tables_say(
    spark: Any, source: Source, database: psycopg.Connection[Any], lake: Path
) -> None:
    leased_at = "{dequeue_at} + (i * 7919 % 1009) * interval '1 millisecond'"
    fill_archive(database, 900, leased_at=leased_at, channel="CASE WHEN i % 4 = 0 THEN 'a/b=<c>' ELSE 'acme' END")
    fill_dead_letters(database, 100, leased_at=leased_at, channel="'acme'", reason="'poison'")
    export(source, lake)
    rollup(spark, Lake.open(lake), {"default": timedelta(seconds=2, milliseconds=500)})

    page = reported(lake)

    [queue] = page.tables["Queues"][1:]
    assert queue[:4] == ["default", "1,000", "100", "0"]
    assert queue[8:11] == [value_text(wait, "seconds") for (wait,) in database.execute(SETTLED + WAITS)]
    assert (
        sorted((row[1], row[2], row[8]) for row in page.tables["Channels"][1:])
        == database.execute(SETTLED + TENANTS).fetchall()
    )
    assert f"{DAY:%d %b %Y}" in page.text


def test_the_times_are_named_for_what_they_show(source: Source, database: psycopg.Connection[Any], lake: Path) -> None:
    """A message that a worker leased ahead waits until its handler starts, and runs from there."""
    fill_archive(
        database,
        10,
        started_at="{leased_at} + interval '10 seconds'",
        archived_at="{leased_at} + interval '310 seconds'",
    )
    export(source, lake)
    assert main(["rollup", "--lake", str(lake)]) == 0

    page = reported(lake)

    [queue] = page.tables["Queues"][1:]
    assert (queue[8], queue[11]) == ("11 s", "5 min")
    assert "Waitfrom due to the start of the handler" in page.text
