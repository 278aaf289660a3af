"""KEEP_UNTIL_EXPORTED: what is not in the lake, to the row, is not dropped."""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, transaction
from django.utils.timezone import now

from django_pgqueue import complete, dead_letter, dequeue, enqueue, prune
from django_pgqueue.models import ArchivedMessage, DeadLetter
from django_pgqueue.pipeline.models import Lake
from tests.lifecycle.test_prune import partition_of, partitions
from tests.support.commands import output_of
from tests.support.moments import pass_time
from tests.support.sessions import Connect
from tests.support.sql import sql, value

pytestmark = pytest.mark.django_db

COLUMNS = (
    "queue, channel, handler, payload, priority, attempts, max_attempts, created_at, dequeue_at, archived_at, outcome"
)


@pytest.fixture(autouse=True)
def _keep(settings: Any) -> None:
    settings.DJANGO_PGQUEUE = {
        "ARCHIVE_RETENTION": timedelta(days=3),
        "DEAD_LETTER_RETENTION": timedelta(days=90),
        "KEEP_UNTIL_EXPORTED": True,
    }


@pytest.fixture
def old() -> str:
    """A partition past retention with two messages."""
    partition = partition_of(10)
    settle_into(partition, 2)
    return partition


def settle_into(partition: str, messages: int) -> None:
    for _ in range(messages):
        enqueue("h")
    complete(dequeue(limit=messages))
    sql("UPDATE pgqueue_archived_message SET archived_at = to_date(%s, 'YYYYMMDD') + interval '1 hour'", partition[-8:])


def day(partition: str) -> str:
    return f"{partition[-8:-4]}-{partition[-4:-2]}-{partition[-2:]}"


def export(rows: dict[str, int], name: str = "lake", xid: int | None = None) -> None:
    """As an export does that has taken so many rows by day, of all transactions until now."""
    seen = xid or 1 + int(value("SELECT pg_current_xact_id()::text"))
    Lake.objects.update_or_create(
        name=name, defaults={"path": "/lake", "exported_xid": seen, "rows": {"archive": rows}}
    )


def test_nothing_is_dropped_before_the_first_export(old: str):
    empty = partition_of(11)
    counts = prune()
    assert (counts.partitions_dropped, counts.partitions_kept) == (0, 2)
    assert {old, empty} <= set(partitions())


def test_a_partition_that_the_lake_has_is_dropped_and_counted(old: str):
    export({day(old): 2})
    counts = prune()
    assert (counts.partitions_dropped, counts.partitions_kept) == (1, 0)
    assert old not in partitions()
    assert value("SELECT messages FROM pgqueue_tally WHERE queue = 'default' AND channel = 'default'") == 2


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_a_partition_with_another_number_of_rows_is_kept(old: str, rows: int):
    export({day(old): rows} if rows else {})
    counts = prune()
    assert (counts.partitions_dropped, counts.partitions_kept) == (0, 1)
    assert ArchivedMessage.objects.count() == 2
    assert sql("SELECT 1 FROM pgqueue_tally") == []


def test_a_row_of_a_transaction_that_the_export_has_not_seen_keeps_its_partition(old: str):
    export({day(old): 2}, xid=int(value("SELECT max(xid::text::bigint) FROM pgqueue_archived_message")))
    assert prune().partitions_kept == 1


def test_the_lake_that_has_seen_the_least_decides(old: str):
    export({day(old): 2})
    export({day(old): 2}, name="older", xid=int(value("SELECT max(xid::text::bigint) FROM pgqueue_archived_message")))
    assert prune().partitions_kept == 1
    export({day(old): 2}, name="older")
    assert prune().partitions_dropped == 1


def test_every_lake_must_have_it(old: str):
    export({day(old): 2})
    export({}, name="given up")
    assert prune().partitions_kept == 1
    Lake.objects.get(name="given up").delete()
    assert prune().partitions_dropped == 1


@pytest.mark.parametrize("rows", ["[]", '{"archive": 5}', '{"archive": {"DAY": "2"}}', '{"archive": {"DAY": null}}'])
def test_a_lake_that_does_not_say_how_many_rows_keeps_it(old: str, rows: str):
    export({})
    Lake.objects.update(rows=json.loads(rows.replace("DAY", day(old))))
    assert prune().partitions_kept == 1


def test_without_the_setting_retention_does_not_ask(old: str, settings: Any):
    settings.DJANGO_PGQUEUE = {"ARCHIVE_RETENTION": timedelta(days=3)}
    assert prune().partitions_dropped == 1


def test_a_partition_that_is_dropped_too_early_is_counted_for_the_lakes_that_lack_it(
    old: str, settings: Any, server_log: list[str]
):
    settings.DJANGO_PGQUEUE = {"ARCHIVE_RETENTION": timedelta(days=3)}
    export({day(old): 2})
    export({day(old): 2}, name="behind", xid=int(value("SELECT max(xid::text::bigint) FROM pgqueue_archived_message")))
    assert prune().partitions_dropped == 1
    assert Lake.objects.get(name="lake").lost == {}
    assert Lake.objects.get(name="behind").lost == {day(old): 2}
    assert server_log == [f"pgqueue: the archive of {day(old)} is dropped, and a lake lacks 2 of its messages"]


@pytest.mark.parametrize("is_seen", [True, False])
def test_dead_letters_go_when_the_export_has_seen_their_transaction(is_seen: bool):
    enqueue("h")
    dead_letter(dequeue(), reason="refused")
    pass_time(days=91)
    assert prune().dead_letters_deleted == 0, "nothing is exported yet"
    xid = int(value("SELECT xid::text FROM pgqueue_dead_letter"))
    export({}, xid=xid + 1 if is_seen else xid)
    export({}, name="another")
    assert prune().dead_letters_deleted == int(is_seen)
    assert DeadLetter.objects.exists() is not is_seen


@pytest.fixture
def committed_old(transactional_db: None) -> Any:
    partition = partition_of(10)
    settle_into(partition, 2)
    yield partition
    sql(f"DROP TABLE IF EXISTS {partition}")


@pytest.mark.django_db(transaction=True)
def test_a_day_to_which_a_long_transaction_may_still_commit_is_not_dropped(committed_old: str, connect: Connect):
    """It settled on that day, and commits after the export and after retention."""
    export({day(committed_old): 2})
    slow = connect()
    copies = f"SELECT id + 1000, {COLUMNS} FROM pgqueue_archived_message"
    slow.execute(f"INSERT INTO pgqueue_archived_message (id, {COLUMNS}) {copies}")
    counts = prune()
    assert (counts.partitions_dropped, counts.partitions_kept) == (0, 1)
    slow.commit()
    assert prune().partitions_kept == 1, "the lake has two of four"
    export({day(committed_old): 4})
    assert prune().partitions_dropped == 1


@pytest.mark.django_db(transaction=True)
def test_no_session_can_commit_between_the_count_and_the_drop(committed_old: str, connect: Connect):
    """A session that wrote to the partition is seen before anything is counted; here it would wait for the tally."""
    export({day(committed_old): 2})
    slow, tally = connect(), connect()
    copies = f"SELECT id + 1000, {COLUMNS} FROM pgqueue_archived_message"
    slow.execute(f"INSERT INTO pgqueue_archived_message (id, {COLUMNS}) {copies}")
    tally.execute("LOCK TABLE pgqueue_tally")
    found = None
    with suppress(OperationalError), transaction.atomic():
        sql("SET LOCAL statement_timeout = '10s'")
        found = sql("SELECT dropped, kept FROM pgqueue_drop_partitions(interval '3 days', true)")
    slow.rollback()
    tally.rollback()
    assert found == [(0, 1)]


@pytest.mark.django_db(transaction=True)
def test_a_long_reader_keeps_the_partition_and_nothing_else_is_held_up(committed_old: str, connect: Connect):
    export({day(committed_old): 2})
    reader = connect()
    reader.execute("SELECT FROM pgqueue_archived_message")
    counts = prune()
    assert (counts.partitions_dropped, counts.partitions_kept) == (0, 1)
    assert sql("SELECT 1 FROM pgqueue_tally") == [], "what stays is not counted"
    reader.rollback()
    assert prune().partitions_dropped == 1
    assert value("SELECT messages FROM pgqueue_tally") == 2


def test_the_lake_that_retention_waits_for_is_named(old: str, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    """Its folder is gone: no export will ever come, and its row holds all partitions back."""
    export({day(old): 2})
    Lake.objects.update(path=str(tmp_path), exported_at=now())
    export({}, name="given-up-4711")
    Lake.objects.filter(name="given-up-4711").update(
        path="/nowhere/lake", exported_at=datetime(2026, 3, 14, 9, 5, tzinfo=UTC)
    )
    gone = "Lake given-up-4711 in /nowhere/lake: the last export was at 2026-03-14 09:05 UTC; this machine has no such"

    with caplog.at_level(logging.WARNING, logger="django_pgqueue.maintenance"):
        printed = output_of("sweepqueue", skip_checks=True).splitlines()

    assert gone in caplog.records[0].getMessage()
    kept = [line.removeprefix("kept: ") for line in printed if line.startswith("kept: ")]
    assert kept[0].startswith(gone)
    assert "delete the lake's row in pgqueue_lake" in kept[0]
    assert kept[1].startswith(f"Lake lake in {tmp_path}: the last export was at 20")
    assert "no such folder" not in kept[1]


def test_a_missing_first_export_is_said(old: str) -> None:
    assert "kept: No lake was exported yet: run pgqueue lake export." in output_of("sweepqueue", skip_checks=True)
