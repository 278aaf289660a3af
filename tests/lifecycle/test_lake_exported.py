from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from django_pgqueue.pipeline.models import Lake
from tests.support.sql import sql, value

pytestmark = pytest.mark.django_db

ONE = '{"archive": {"2026-11-21": 1}}'
TWO = '{"archive": {"2026-11-21": 2}}'


def exported(xid: int, rows: str | None = ONE, path: str = "/lake") -> bool:
    return value("SELECT pgqueue_lake_exported('nightly', %s, %s, %s)", path, xid, rows)


def test_the_database_knows_what_a_lake_holds():
    assert exported(100)
    lake = Lake.objects.get()
    assert (lake.name, lake.path, lake.exported_xid, lake.rows) == (
        "nightly",
        "/lake",
        100,
        {"archive": {"2026-11-21": 1}},
    )
    assert timezone.now() - lake.exported_at < timedelta(minutes=1)


def test_a_later_export_replaces_it_and_may_come_from_another_place():
    exported(100)
    assert exported(101, TWO, "/elsewhere")
    lake = Lake.objects.get()
    assert (lake.path, lake.exported_xid, lake.rows) == ("/elsewhere", 101, {"archive": {"2026-11-21": 2}})


def test_a_late_report_of_an_older_export_changes_nothing():
    exported(100, TWO)
    sql("UPDATE pgqueue_lake SET exported_at = '2020-01-01T00:00Z'")
    assert not exported(99, ONE, "/elsewhere")
    lake = Lake.objects.get()
    assert (lake.path, lake.exported_xid, lake.rows) == ("/lake", 100, {"archive": {"2026-11-21": 2}})
    assert lake.exported_at.year == 2020
