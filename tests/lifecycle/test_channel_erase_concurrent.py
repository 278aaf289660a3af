"""channel_erase while other transactions work on the same tenant."""

from __future__ import annotations

import time
from typing import Any

import pytest

from django_pgqueue import channel_release, channel_set, dequeue
from django_pgqueue.exceptions import ChannelBusy
from django_pgqueue.lifecycle import channels as erasing
from django_pgqueue.models import Channel
from django_pgqueue.sql.call import ask
from tests.lifecycle.canary import CANARY, erase, grep
from tests.support.refusals import refused
from tests.support.sessions import Connect
from tests.support.sql import sql

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_message_that_an_open_transaction_brings_is_reported_and_goes_with_the_next_erase(
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


def test_a_message_that_another_transaction_settles_is_not_missed(tenant: str, connect: Connect) -> None:
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


def test_an_erase_ends_beside_a_producer_that_is_as_fast_as_it_is(tenant: str) -> None:
    """Each call of this erase takes two messages, and meanwhile two come."""
    ask = "SELECT reached::text FROM pgqueue_channel_erase('mails', %s, p_after => %s, p_limit => 2)"
    reached = "{}"
    for _call in range(50):
        [(reached,)] = sql(ask, tenant, reached)
        if "table" in reached:
            break
        for _message in range(2):
            sql("SELECT pgqueue_enqueue('h', p_queue => 'mails', p_channel => %s)", tenant)
    assert "table" in reached, "it has gone on to the other tables"
    assert erase(tenant).done
    assert grep(CANARY) == {}


def test_beside_a_producer_that_goes_on_the_channel_is_removed_and_nothing_is_delivered(
    tenant: str, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = connect(autocommit=True)
    outcomes, delivered = [], []

    def ask_after_an_enqueue(*arguments: Any) -> Any:
        enqueued = "SELECT outcome FROM pgqueue_enqueue('h', %s, p_queue => 'mails', p_channel => %s)"
        outcomes.extend(producer.execute(enqueued, [f'"{CANARY}"', tenant]).fetchall())
        if len(outcomes) > 1:
            delivered.extend(dequeue(queue="mails"))
        return ask(*arguments)

    monkeypatch.setattr(erasing, "ask", ask_after_an_enqueue)
    report = erase(tenant)
    assert (outcomes[0], outcomes[-1]) == (("created",), ("not_found",))
    assert delivered == [], "the channel is paused until it is gone"
    assert report.done
    assert report.erased["channel"] == 1
    assert grep(CANARY) == {}
