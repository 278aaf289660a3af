"""Messages of all kinds, and the two ways to compute their metrics."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.transforms.rollup import Rolled, rollup
from tests.spark.rows import fill_archive, fill_dead_letters
from tests.support.sessions import Session as Database

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
    " 'leased_at', {created_at} + interval '250 milliseconds', 'started_at',"
    " CASE WHEN i % 2 = 0 THEN {created_at} + interval '0.75 seconds' END,"
    " 'at', {created_at} + interval '1.5 seconds')) END",
}
Roll = Callable[..., Rolled]
# Whether there is a session.
WAYS = {"in this process": False, "as tasks on Spark": True}


def fill_mixed(database: Database) -> None:
    fill_archive(
        database,
        1500,
        **MIXED,
        archived_at="greatest({day}, {leased_at} + (i * 31337 % 5003) * interval '1 millisecond')",
        outcome="(ARRAY['completed', 'completed', 'completed', 'popped', 'cancelled'])[1 + i % 5]",
        started_at="CASE WHEN i % 4 > 0 THEN {leased_at} + ({archived_at} - {leased_at}) * 0.7 END",
    )
    fill_dead_letters(
        database,
        300,
        **MIXED,
        dead_at="greatest({day}, {leased_at} + interval '1 second')",
        reason="'r' || i % 2",
        started_at="CASE WHEN i % 4 > 0 THEN {leased_at} + interval '0.3 seconds' END",
    )


def rolling(spark: Any) -> Roll:
    def roll(lake: Path, **options: Any) -> Rolled:
        return rollup(spark, Lake.open(lake), SLA, **options)

    return roll
