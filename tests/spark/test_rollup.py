"""Rollups: every number of every row is the one that PostgreSQL computes from the archive itself."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import psycopg

from django_pgqueue.spark.export.job import export
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.source import Source
from django_pgqueue.spark.transforms.rollup import Rolled, rollup
from tests.spark.rows import DAY, fill_archive, fill_dead_letters
from tests.spark.truth import expected_metrics, lake_metrics

Database = psycopg.Connection[Any]

SLA = {"default": timedelta(seconds=4), "default/tenant 1": timedelta(seconds=2, milliseconds=500)}
SLA_JSON = json.dumps({name: limit.total_seconds() for name, limit in SLA.items()})
# i is the number of the row: messages of several queues, tenants and handlers that take times which look random.
MIXED = {
    "queue": "CASE WHEN i % 11 = 0 THEN 'mail' ELSE 'default' END",
    "channel": "'tenant ' || i % 3",
    "handler": "'shop.' || i % 2",
    "attempts": "1 + i % 3",
    "created_at": "{day} - interval '1 hour' + i * interval '47.123457 seconds'",
    "dequeue_at": "{created_at} + (i * 7919 % 1009) * interval '1.000003 milliseconds'",
    "leased_at": "{dequeue_at} + (i * 104729 % 10007) * interval '1 millisecond'",
    "errors": "CASE WHEN i % 3 > 0 THEN jsonb_build_array(jsonb_build_object('attempt', 1, 'type', 'Error' || i % 4,"
    " 'leased_at', {created_at} + interval '250 milliseconds', 'at', {created_at} + interval '1.5 seconds')) END",
}


def fill(database: Database) -> None:
    fill_archive(
        database,
        1500,
        **MIXED,
        archived_at="greatest({day}, {leased_at} + (i * 31337 % 5003) * interval '1 millisecond')",
        outcome="(ARRAY['completed', 'completed', 'completed', 'popped', 'cancelled'])[1 + i % 5]",
    )
    fill_dead_letters(
        database, 300, **MIXED, dead_at="greatest({day}, {leased_at} + interval '1 second')", reason="'r' || i % 2"
    )


def roll(spark: Any, lake: Path, **options: Any) -> Any:
    return rollup(spark, Lake.open(lake), SLA, **options)


def test_every_number_is_the_truth(spark: Any, source: Source, database: Database, lake: Path) -> None:
    fill(database)
    export(source, lake)

    rolled = roll(spark, lake)

    found, truth = lake_metrics(lake), expected_metrics(database, SLA_JSON)
    assert found.keys() == truth.keys()
    for key, row in truth.items():
        assert found[key] == row, key
    assert set(rolled.days) == {DAY, DAY - timedelta(days=1)}


def test_late_data_corrects_the_days_it_touches_and_no_other(
    spark: Any, source: Source, database: Database, lake: Path
) -> None:
    fill(database)
    export(source, lake)
    roll(spark, lake)
    other = date(2026, 2, 1)
    fill_archive(database, 20, day=DAY, created_at=f"timestamptz '{other} 12:00+00' + i * interval '1 minute'")
    export(source, lake)

    rolled = roll(spark, lake)

    assert set(rolled.days) == {DAY, other}
    assert lake_metrics(lake) == expected_metrics(database, SLA_JSON)
    assert roll(spark, lake) == Rolled()
