"""Storage settings, partitions and indexes: what keeps the hot tables small is really in the database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.sql import sql

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("table", ["pgqueue_message", "pgqueue_lane", "pgqueue_arrival", "pgqueue_archived_message"])
def test_a_table_that_each_message_writes_has_no_check(table: str) -> None:
    # Each statement that writes parses it anew: docs/explanation/decisions/rules-in-the-trigger.md.
    checks = "SELECT conname FROM pg_constraint WHERE conrelid = %s::regclass AND contype = 'c'"
    assert sql(checks, table) == []


def test_the_archive_has_partitions_for_today_and_a_week() -> None:
    bounds = dict(
        sql(
            "SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits AS i"
            " JOIN pg_class AS c ON c.oid = i.inhrelid WHERE i.inhparent = 'pgqueue_archived_message'::regclass"
        )
    )
    today = datetime.now(UTC)
    for day in (today + timedelta(days=ahead) for ahead in range(8)):
        bound = bounds[f"pgqueue_archived_message_{day:%Y%m%d}"]
        assert f"{day:%Y-%m-%d} 00:00:00+00" in bound
        assert f"{day + timedelta(days=1):%Y-%m-%d} 00:00:00+00" in bound


def test_the_message_table_has_the_indexes_of_the_hot_paths_and_no_other() -> None:
    # Each one is paid for by every enqueue, dequeue and settlement.
    indexes = {name for (name,) in sql("SELECT indexname FROM pg_indexes WHERE tablename = 'pgqueue_message'")}

    assert indexes == {
        "pgqueue_message_pkey",
        "pgqueue_message_ready",
        "pgqueue_message_leased",
        "pgqueue_message_expiry",
        "pgqueue_message_scheduled",
        "pgqueue_message_dedupe",
        # These have entries only for messages that are scheduled, or have shared limits or an order key.
        "pgqueue_message_due",
        "pgqueue_message_waiting",
        "pgqueue_message_promoted",
        "pgqueue_message_order",
    }


@pytest.mark.parametrize("table", ["pgqueue_lane", "pgqueue_arrival", "pgqueue_message"])
def test_no_foreign_key_writes_to_the_channels_row(table: str) -> None:
    assert sql("SELECT conname FROM pg_constraint WHERE contype = 'f' AND conrelid = %s::regclass", table) == []


def test_names_of_queues_and_channels_compare_as_bytes() -> None:
    found = sql(
        "SELECT a.attrelid::regclass::text, a.attname, c.collname FROM pg_attribute AS a"
        " JOIN pg_collation AS c ON c.oid = a.attcollation"
        " WHERE a.attrelid::regclass::text IN ('pgqueue_channel', 'pgqueue_lane') AND a.attname IN ('queue', 'name')"
    )
    assert {collation for _, _, collation in found} == {"C"}
