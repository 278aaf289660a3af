from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest

from django_pgqueue import (
    NewMessage,
    channel_erase,
    channel_pause,
    channel_release,
    channel_set,
    complete,
    dead_letter,
    dequeue,
    enqueue,
    enqueue_many,
    heartbeat,
    measure,
    redrive,
    retry,
    schedule_run,
)
from django_pgqueue.exceptions import ChannelBusy, ChannelNotFound, InvalidMessage, LeaseLost
from django_pgqueue.lifecycle import channel_erase as erasing
from django_pgqueue.lifecycle.channel_erase import ChannelErased
from django_pgqueue.models import Channel, Message, Schedule
from django_pgqueue.pipeline.models import BacklogForecast, QueueMetric
from tests.support.messages import places
from tests.support.moments import pass_time
from tests.support.refusals import refusal, refused
from tests.support.sessions import Connect
from tests.support.sql import sql, value

pytestmark = pytest.mark.django_db(transaction=True)

CANARY = "canary-7f3a"
TABLES = """
SELECT c.oid::regclass::text FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
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
    measure(timedelta(0))
    counts = dict.fromkeys(
        ("enqueued", "completed", "popped", "purged", "dropped", "cancelled", "dead", "attempts", "retries"), 1
    )
    now = value("SELECT clock_timestamp()")
    QueueMetric.objects.create(
        grain="day",
        bucket_at=now,
        queue="mails",
        channel=name,
        run_seconds=1,
        retry_seconds=0,
        sla_breaches=0,
        **counts,
    )
    BacklogForecast.objects.create(
        computed_at=now, queue="mails", channel=name, hour_at=now, expected_enqueued=1, expected_capacity=1,
        expected_backlog=1,
    )  # fmt: skip
    stage = value("SELECT pgqueue_ingest_open('job')")
    sql(f"INSERT INTO pgqueue_stage_{stage} (queue, channel, handler) VALUES ('mails', %s, 'h')", name)
    sql("SELECT pgqueue_stream_open('s', 'mails', %s)", name)
    yield name
    sql(f"DROP TABLE IF EXISTS pgqueue_stage_{stage}")
    # Tests of the dashboard would find an old measurement.
    sql("TRUNCATE pgqueue_ingest_stage, pgqueue_stream, pgqueue_stream_claim, pgqueue_measurement")


def erase(channel: str, **more: Any) -> ChannelErased:
    return channel_erase(queue="mails", channel=channel, **more)


def test_nothing_of_a_tenant_is_left_anywhere(tenant: str) -> None:
    channel_set(channel="other", queue="mails")
    other = enqueue("h", {"kept": True}, queue="mails", channel="other").id
    present = grep(CANARY)
    assert {
        "pgqueue_message", "pgqueue_dead_letter", "pgqueue_channel", "pgqueue_schedule", "pgqueue_schedule_tick",
        "pgqueue_activity", "pgqueue_backlog", "pgqueue_tally", "pgqueue_unarchived_total", "pgqueue_queue_metric",
        "pgqueue_backlog_forecast", "pgqueue_stream",
    } <= set(present)  # fmt: skip
    assert any(table.startswith("pgqueue_archived_message_") for table in present)
    assert any(table.startswith("pgqueue_stage_") for table in present)

    foreseen = erase(tenant, dry_run=True)
    assert grep(CANARY) == present
    report = erase(tenant)

    assert grep(CANARY) == {}
    assert report.done
    assert report.erased == foreseen.erased
    assert (foreseen.dry_run, foreseen.done, report.dry_run, report.left, report.leased) == (True, True, False, {}, 0)
    assert sum(report.erased.values()) == sum(present.values())
    assert report.erased["message"] == 4
    assert places(other) == ["live"]
    assert [delivery.id for delivery in dequeue(queue="mails")] == [other]


def test_an_erase_can_be_repeated_and_then_says_that_nothing_was_there(tenant: str) -> None:
    erase(tenant)
    assert erase(tenant) == ChannelErased("mails", tenant, False, {}, {}, 0)
    assert erase("never seen", dry_run=True).erased == {}
    with refused(ChannelNotFound):
        enqueue("h", queue="mails", channel=tenant)


def test_a_large_tenant_goes_in_parts(tenant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    enqueue_many(NewMessage(handler="h", channel=tenant, queue="mails") for _ in range(20))
    monkeypatch.setattr(erasing, "SQL", erasing.SQL.replace("%s::jsonb)", "%s::jsonb, 7)"))
    assert erase(tenant).erased["message"] == 24
    assert grep(CANARY) == {}


def test_what_is_leased_stays_until_it_has_ended(tenant: str) -> None:
    enqueue("h", queue="mails", channel=tenant, priority=30)
    [held] = dequeue(queue="mails")
    before = erase(tenant, dry_run=True)
    assert (before.left, before.leased, before.done) == ({"channel": 1, "message": 1}, 1, False)
    report = erase(tenant)
    assert (report.left, report.leased, report.done) == ({"channel": 1, "message": 1}, 1, False)
    assert report.erased == before.erased
    assert Channel.objects.get(name=tenant).context == {}

    retry(held, errors=[{"secret": CANARY}], delays=[timedelta(0)])
    assert dequeue(queue="mails") == [], "the channel is paused meanwhile"
    report = erase(tenant)
    assert report.erased == {"channel": 1, "message": 1}
    assert report.done
    assert grep(CANARY) == {}


def test_with_force_the_holder_loses_its_lease(tenant: str) -> None:
    enqueue("h", queue="mails", channel=tenant, priority=30)
    [held] = dequeue(queue="mails")
    assert erase(tenant, force=True, dry_run=True).done
    assert erase(tenant, force=True).done
    assert grep(CANARY) == {}
    with pytest.raises(LeaseLost):
        heartbeat(held)
    with pytest.raises(LeaseLost):
        complete(held, results=[{"secret": CANARY}])
    assert grep(CANARY) == {}


def test_what_an_open_transaction_brings_is_reported_and_goes_with_the_next_erase(
    tenant: str, connect: Connect
) -> None:
    producer = connect()
    producer.execute("SELECT pgqueue_enqueue('h', %s, p_queue => 'mails', p_channel => %s)", [f'"{CANARY}"', tenant])
    report = erase(tenant)
    assert (report.done, report.left, report.leased) == (False, {"channel": 1}, 0)
    assert "channel" not in report.erased
    producer.commit()
    assert erase(tenant).erased == {"channel": 1, "message": 1}
    assert grep(CANARY) == {}


def test_what_another_transaction_settles_is_not_missed(tenant: str, connect: Connect) -> None:
    worker = connect()
    worker.execute("SELECT * FROM pgqueue_pop('mails', 1)")
    assert not erase(tenant).done
    worker.commit()
    assert any(table.startswith("pgqueue_archived_message") for table in grep(CANARY))
    assert erase(tenant).done
    assert grep(CANARY) == {}


def test_a_released_channel_of_the_same_name_goes_too(tenant: str, connect: Connect) -> None:
    slow = connect()
    channel_set(channel="acme", queue="mails")
    Channel.objects.filter(name="acme").update(context={"secret": "of the first"})
    slow.execute("SELECT pgqueue_enqueue('h', p_queue => 'mails', p_channel => 'acme')")
    channel_release(channel="acme", queue="mails")
    channel_set(channel="acme", queue="mails")
    channel_set(channel="acme (released 1)", queue="mails")
    assert Channel.objects.filter(name__startswith="acme").count() == 3
    slow.commit()
    assert erase("acme").done
    assert list(Channel.objects.filter(name__startswith="acme").values_list("name", flat=True)) == ["acme (released 1)"]


def test_a_prune_or_a_measurement_that_runs_is_waited_for(
    tenant: str, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasing, "BUSY_PAUSE_SECONDS", 0.01)
    beside = connect()
    for lock in (2, 3):
        beside.execute("SELECT pg_advisory_xact_lock(7205, %s)", [lock])
        with refused(ChannelBusy, "other transactions hold locks"):
            erase(tenant)
        beside.rollback()
    assert erase(tenant).done
    assert grep(CANARY) == {}


def test_no_call_waits_long_for_locks(tenant: str, connect: Connect) -> None:
    beside = connect()
    beside.execute("UPDATE pgqueue_channel SET weight = 2 WHERE name = %s", [tenant])
    began = time.monotonic()
    [(outcome,)] = sql("SELECT outcome FROM pgqueue_channel_erase('mails', %s)", tenant)
    assert outcome == "busy"
    assert 1.9 < time.monotonic() - began < 10
    beside.rollback()
    assert erase(tenant).done


def test_a_pause_of_an_operator_does_not_end_during_an_erase(tenant: str) -> None:
    channel_pause(channel=tenant, queue="mails", reason="late bill", until=value("SELECT now() + interval '1 hour'"))
    enqueue("h", queue="mails", channel=tenant)
    sql("SELECT * FROM pgqueue_channel_erase('mails', %s, p_limit => 1)", tenant)
    pass_time(hours=2)
    sql("SELECT * FROM pgqueue_sweep()")
    assert dequeue(queue="mails") == []
    assert Channel.objects.get(name=tenant).pause_reason == "the channel is being erased"


def test_a_table_that_was_dropped_meanwhile_is_passed_by(tenant: str) -> None:
    ask = "SELECT reached, outcome FROM pgqueue_channel_erase('mails', %s, p_after => %s)"
    [(reached, outcome)] = sql(ask, tenant, '{"table": "pgqueue_archived_message_19990101", "block": 7}')
    assert outcome == "erasing"
    assert "pgqueue_archived_message_2" in reached
    sql("SELECT * FROM pgqueue_channel_erase('mails', %s, p_after => %s)", tenant, '{"table": "pg_authid", "block": 0}')


def test_large_tables_are_read_in_ranges(tenant: str) -> None:
    [(table,)] = sql("SELECT DISTINCT tableoid::regclass::text FROM pgqueue_archived_message")
    sql(
        f"""INSERT INTO {table} (id, queue, channel, handler, body, priority, attempts, max_attempts, created_at,
            dequeue_at, archived_at, outcome)
        SELECT n, 'mails', CASE WHEN n %% 4000 = 0 THEN %s ELSE 'other' END, repeat('h', 200), repeat('x', 1700)::bytea,
            0, 1, 1, clock_timestamp(), clock_timestamp(), clock_timestamp(), 'completed'
        FROM generate_series(1000000, 1009010) AS n""",
        tenant,
    )
    assert value(f"SELECT pg_relation_size('{table}') / 8192") > 2048
    [(reached,)] = sql(
        "SELECT reached FROM pgqueue_channel_erase('mails', %s, p_dry_run => true, p_after => %s)",
        tenant,
        f'{{"table": "{table}", "block": 0}}',
    )
    assert '"block": 2048' in reached
    before = value("SELECT count(*) FROM pgqueue_archived_message WHERE channel = %s", tenant)
    assert before == 4
    assert erase(tenant).erased["archived_message"] == 4
    assert value("SELECT count(*) FROM pgqueue_archived_message") == 9008


def test_messages_that_were_redriven_go_with_their_letters(tenant: str) -> None:
    [letter] = [pk for (pk,) in sql("SELECT id FROM pgqueue_dead_letter WHERE channel = %s", tenant)]
    redrive([letter])
    report = erase(tenant)
    assert report.erased["dead_letter"] == 1
    assert report.erased["message"] == 5
    assert not Message.objects.exists()


@pytest.mark.parametrize("wrong", ["p_force => NULL", "p_dry_run => NULL", "p_after => NULL", "p_limit => 0"])
def test_a_null_or_an_empty_limit_changes_nothing(tenant: str, wrong: str) -> None:
    before = grep(CANARY)
    assert refusal(f"pgqueue_channel_erase('mails', '{tenant}', {wrong})")["sqlstate"] == "PGQ07"
    assert grep(CANARY) == before


def test_it_takes_bools_only(tenant: str) -> None:
    for wrong in ({"force": "no"}, {"dry_run": 1}):
        with refused(InvalidMessage, "not a bool"):
            erase(tenant, **wrong)
