"""The retention of a queue: shorter than the archive's, rows go; longer, partitions stay."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from django_pgqueue import channel_set, complete, dead_letter, dequeue, enqueue, metrics, prune, queue_set
from django_pgqueue.lifecycle import upkeep as pruning
from django_pgqueue.models import ArchivedMessage, DeadLetter
from django_pgqueue.pipeline.models import Lake
from tests.lifecycle.conftest import partition_of
from tests.support.moments import pass_time
from tests.support.sql import sql, value

pytestmark = pytest.mark.django_db

COLUMNS = (
    "queue, channel, handler, payload, priority, attempts, max_attempts, created_at, dequeue_at, archived_at, outcome"
)
AT = "(date_trunc('day', now() AT TIME ZONE 'UTC') - %s * interval '1 day' + interval '1 hour') AT TIME ZONE 'UTC'"


@pytest.fixture(autouse=True)
def _settings(settings: Any) -> None:
    settings.DJANGO_PGQUEUE = {"ARCHIVE_RETENTION": timedelta(days=30)}
    channel_set(channel="a", queue="mails")


def archive(queue: str, days_ago: int, rows: int = 1) -> str:
    """Archived messages of a past day, in its partition."""
    partition = partition_of(days_ago)
    sql(
        f"""INSERT INTO {partition} (id, {COLUMNS})
        SELECT nextval('pgqueue_message_id_seq'), %s, 'a', 'h', '1', 0, 1, 1, t, t, t, 'completed'
        FROM generate_series(1, %s), (SELECT {AT} AS t) AS t""",
        queue,
        rows,
        days_ago,
    )
    return partition


def kept() -> dict[str, list[int]]:
    """The ages in days of the rows that are there, by queue."""
    found: dict[str, list[int]] = {}
    age = "(date_trunc('day', now() AT TIME ZONE 'UTC') - date_trunc('day', archived_at AT TIME ZONE 'UTC'))"
    for queue, days in sql(f"SELECT queue, extract(day FROM {age})::integer FROM pgqueue_archived_message ORDER BY 2"):
        found.setdefault(queue, []).append(days)
    return found


def test_a_queue_with_a_shorter_retention_loses_its_rows_and_the_others_keep_theirs() -> None:
    queue_set("mails", retention=timedelta(days=3))
    for days in (2, 3, 5, 9):
        archive("mails", days)
        archive("default", days)
    counts = prune()
    assert kept() == {"mails": [2, 3], "default": [2, 3, 5, 9]}
    assert (counts.archived_deleted, counts.partitions_dropped) == (2, 0)
    assert prune().archived_deleted == 0
    [mails] = [row for row in metrics("mails") if row.channel == "a"]
    assert mails.total == 4, "the totals stay true"


def test_a_queue_with_a_longer_retention_keeps_the_partition() -> None:
    old, older = archive("mails", 40), archive("mails", 100)
    archive("default", 40)
    queue_set("mails", retention=timedelta(days=60))
    assert prune().partitions_dropped == 1
    assert kept() == {"mails": [40], "default": [40]}
    queue_set("mails", retention=None)
    assert prune().partitions_dropped == 1
    assert not value("SELECT to_regclass(%s)", old)
    assert not value("SELECT to_regclass(%s)", older)
    assert value("SELECT count(*) FROM pgqueue_pruned") == 0


def test_without_a_retention_of_the_archive_the_queue_has_its_own(settings: Any) -> None:
    settings.DJANGO_PGQUEUE = {"ARCHIVE_RETENTION": None}
    archive("mails", 40)
    archive("default", 40)
    queue_set("mails", retention=timedelta(days=10))
    counts = prune()
    assert (counts.archived_deleted, counts.partitions_dropped) == (1, 0)
    assert kept() == {"default": [40]}


def test_a_day_is_read_once_in_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = archive("mails", 5, rows=10)
    # Four messages in a block: 9,000 rows are more than one range.
    sql(f"UPDATE {partition} SET body = repeat('x', 1900)::bytea")
    sql(f"INSERT INTO {partition} (id, body, {COLUMNS}) SELECT id + n * 1000000, body, {COLUMNS} FROM {partition}, "
        "generate_series(1, 1000) AS n")  # fmt: skip
    blocks = value(f"SELECT pg_relation_size('{partition}') / 8192")
    assert blocks > 2048
    queue_set("mails", retention=timedelta(days=1))
    [(deleted, more)] = sql("SELECT * FROM pgqueue_prune_queues()")
    assert 0 < deleted < 10_010
    assert more
    assert sql("SELECT block FROM pgqueue_pruned") == [(2048,)]
    monkeypatch.setattr(pruning, "MOST_RANGES", 1)
    assert prune().archived_deleted == 10_010 - deleted
    assert sql("SELECT block FROM pgqueue_pruned") == [(None,)]
    assert sql("SELECT * FROM pgqueue_prune_queues()") == [(0, False)]


def test_only_what_a_lake_has_is_deleted(settings: Any) -> None:
    settings.DJANGO_PGQUEUE = {"ARCHIVE_RETENTION": timedelta(days=30), "KEEP_UNTIL_EXPORTED": True}
    queue_set("mails", retention=timedelta(days=3))
    partition = archive("mails", 5, rows=2)
    archive("default", 5)
    assert prune().archived_deleted == 0
    day = f"{partition[-8:-4]}-{partition[-4:-2]}-{partition[-2:]}"
    lake = Lake.objects.create(name="l", path="/l", exported_xid=2**50, rows={"archive": {day: 2}})
    assert prune().archived_deleted == 0, "the lake has two of three"
    lake.rows = {"archive": {day: 3}}
    lake.save()
    assert prune().archived_deleted == 2
    settings.DJANGO_PGQUEUE = {"ARCHIVE_RETENTION": timedelta(days=4), "KEEP_UNTIL_EXPORTED": True}
    assert prune().partitions_dropped == 1, "the lake had the whole day before rows were deleted"


def test_a_pruned_day_with_late_rows_is_not_dropped_before_the_lake_has_them(settings: Any) -> None:
    settings.DJANGO_PGQUEUE = {"ARCHIVE_RETENTION": timedelta(days=4), "KEEP_UNTIL_EXPORTED": True}
    queue_set("mails", retention=timedelta(days=3))
    partition = archive("mails", 5, rows=2)
    day = f"{partition[-8:-4]}-{partition[-4:-2]}-{partition[-2:]}"
    xid = value("SELECT pg_current_xact_id()::text::bigint")
    sql("INSERT INTO pgqueue_pruned (queue, day) VALUES ('mails', %s)", day)
    lake = Lake.objects.create(name="l", path="/l", exported_xid=xid, rows={"archive": {day: 9}})
    assert prune().partitions_kept == 1
    lake.exported_xid = xid + 1
    lake.save()
    assert prune().partitions_dropped == 1


def test_dead_letters_have_a_retention_of_their_queue(settings: Any) -> None:
    settings.DJANGO_PGQUEUE = {"DEAD_LETTER_RETENTION": timedelta(days=30)}
    channel_set(channel="a", queue="bills")
    queue_set("mails", dead_letter_retention=timedelta(days=3))
    queue_set("bills", dead_letter_retention=timedelta(days=300))
    for queue in ("mails", "bills", "default"):
        enqueue("h", queue=queue, channel="default" if queue == "default" else "a")
        dead_letter(dequeue(queue), reason="no")
    pass_time(days=5)
    assert prune().dead_letters_deleted == 1
    assert set(DeadLetter.objects.values_list("queue", flat=True)) == {"bills", "default"}
    pass_time(days=60)
    assert prune().dead_letters_deleted == 1
    assert set(DeadLetter.objects.values_list("queue", flat=True)) == {"bills"}


def test_todays_rows_stay_however_short_the_retention() -> None:
    queue_set("mails", retention=timedelta(seconds=1))
    enqueue("h", queue="mails", channel="a")
    complete(dequeue("mails"))
    assert prune().archived_deleted == 0
    assert ArchivedMessage.objects.count() == 1
