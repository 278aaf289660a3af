from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgqueue import channel_pause, channel_set, complete, dequeue, enqueue, heartbeat, redrive, retry
from django_pgqueue.exceptions import ChannelNotFound, LeaseLost
from django_pgqueue.lifecycle.channels import ChannelErased
from django_pgqueue.models import Channel, Message
from tests.lifecycle.canary import CANARY, erase, grep
from tests.support.cases import cases
from tests.support.messages import places
from tests.support.moments import pass_time
from tests.support.refusals import refusal, refused
from tests.support.sql import sql, value

pytestmark = pytest.mark.django_db(transaction=True)


def test_nothing_of_a_tenant_is_left_anywhere(tenant: str) -> None:
    channel_set(channel="other", queue="mails")
    other = enqueue("h", {"kept": True}, queue="mails", channel="other").id
    present = grep(CANARY)
    assert {
        "pgqueue_message", "pgqueue_dead_letter", "pgqueue_channel", "pgqueue_schedule", "pgqueue_schedule_tick",
        "pgqueue_activity", "pgqueue_backlog", "pgqueue_tally", "pgqueue_unarchived_total", "pgqueue_queue_metric",
        "pgqueue_log",
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


def test_leased_messages_stay_until_they_have_ended(tenant: str) -> None:
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


def test_a_pause_of_an_operator_does_not_end_during_an_erase(tenant: str) -> None:
    channel_pause(channel=tenant, queue="mails", reason="late bill", until=value("SELECT now() + interval '1 hour'"))
    enqueue("h", queue="mails", channel=tenant)
    sql("SELECT * FROM pgqueue_channel_erase('mails', %s, p_limit => 1)", tenant)
    pass_time(hours=2)
    sql("SELECT * FROM pgqueue_sweep()")
    assert dequeue(queue="mails") == []
    assert Channel.objects.get(name=tenant).pause_reason == "the channel is being erased"


def test_large_tables_are_read_in_ranges(tenant: str) -> None:
    [(table,)] = sql(
        "SELECT DISTINCT c.relname FROM pgqueue_archived_message AS a JOIN pg_class AS c ON c.oid = a.tableoid"
    )
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


@cases("wrong", ["p_force => NULL", "p_dry_run => NULL", "p_after => NULL", "p_limit => 0"])
def test_a_null_or_an_empty_limit_changes_nothing(tenant: str, wrong: str) -> None:
    before = grep(CANARY)
    assert refusal(f"pgqueue_channel_erase('mails', '{tenant}', {wrong})")["sqlstate"] == "PGQ07"
    assert grep(CANARY) == before
