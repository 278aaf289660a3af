"""A tenant whose data are in every table that could hold them, and the search for what is left of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from django_pgqueue import (
    channel_erase,
    channel_set,
    complete,
    dead_letter,
    dequeue,
    enqueue,
    measure,
    retry,
    schedule_run,
)
from django_pgqueue.lifecycle.channels import ChannelErased
from django_pgqueue.models import Channel, Schedule
from django_pgqueue.pipeline.models import QueueMetric
from tests.support.sql import sql, value

CANARY = "canary-7f3a"


TABLES = """
SELECT c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') ORDER BY 1
"""


def grep(text: str) -> dict[str, int]:
    """The rows of all tables of the database that have the text in any column, also as bytes."""
    found = {}
    for (table,) in sql(TABLES):
        rows = f"SELECT to_jsonb(t)::text AS row FROM {table} AS t"
        if count := value(
            f"SELECT count(*) FROM ({rows}) AS r WHERE position(%s IN r.row) > 0 OR position(%s IN r.row) > 0",
            text,
            text.encode().hex(),
        ):
            found[table] = count
    return found


@pytest.fixture
def tenant() -> str:
    """A tenant whose name and whose data have the canary: in every table that could hold it."""
    name = f"tenant {CANARY}"
    secret = {"secret": CANARY}
    measure(timedelta(0))
    channel_set(channel=name, queue="mails", max_size=1000)
    Channel.objects.filter(name=name).update(context=secret)

    def send(**more: Any) -> Any:
        return enqueue("h", secret, queue="mails", channel=name, headers=secret, body=CANARY.encode(), **more)

    for _ in range(3):
        send()
    done, dead, failed = dequeue(queue="mails", limit=3)
    complete(done, results=[secret])
    dead_letter(dead, reason=CANARY, details=secret)
    retry(failed, errors=[secret], delays=[timedelta(0)])
    send(dedupe_key=CANARY)
    send(delay=timedelta(hours=1))
    Schedule.objects.create(name=CANARY, handler="h", payload=secret, queue="mails", channel=name, cron="0 4 * * *")
    schedule_run(CANARY)
    channel_set(channel=name, queue="mails", archive="none")
    enqueue("h", secret, queue="mails", channel=name, priority=9)
    complete(dequeue(queue="mails"))
    channel_set(channel=name, queue="mails", archive=None)
    sql("INSERT INTO pgqueue_tally VALUES ('mails', %s, 7)", name)
    sql("INSERT INTO pgqueue_unarchived_total VALUES ('mails', %s, 7)", name)
    columns = "message_id, lease_token, attempt, queue, channel, log"
    sql(
        f"INSERT INTO pgqueue_log ({columns}) SELECT 1, gen_random_uuid(), 1, 'mails', %s, to_jsonb(%s::text)",
        name,
        CANARY,
    )
    measure(timedelta(0))
    counts = dict.fromkeys(
        ("enqueued", "completed", "popped", "purged", "dropped", "cancelled", "dead", "attempts", "retries"), 1
    )
    now = value("SELECT clock_timestamp()")
    QueueMetric.objects.create(
        grain="day",
        bucket_at=now,
        level="channel",
        queue="mails",
        channel=name,
        run_seconds=1,
        retry_seconds=0,
        sla_breaches=0,
        **counts,
    )
    stage = value("SELECT pgqueue_ingest_open('job')")
    sql(f"INSERT INTO pgqueue_stage_{stage} (queue, channel, handler) VALUES ('mails', %s, 'h')", name)
    yield name
    sql(f"DROP TABLE IF EXISTS pgqueue_stage_{stage}")
    # Tests of the dashboard would find an old measurement.
    sql("TRUNCATE pgqueue_ingest_stage, pgqueue_measurement")


def erase(channel: str, **more: Any) -> ChannelErased:
    return channel_erase(queue="mails", channel=channel, **more)
