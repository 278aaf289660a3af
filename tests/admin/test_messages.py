from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test import Client

from django_pgqueue import NewMessage, complete, dequeue, enqueue, enqueue_many
from django_pgqueue.admin import bulk_actions
from django_pgqueue.models import ArchivedMessage, Message
from tests.admin.conftest import act, address, logged, notices

MORE = "More rows match, which were not on the page. They are unchanged; repeat the action for them."


def test_cancel_asks_first(admin_client: Client) -> None:
    message = enqueue("mail.send")
    text = act(admin_client, "message", "cancel", message.id).content.decode()
    assert f"mail.send #{message.id}" in text
    assert 'name="reason"' in text
    assert Message.objects.get().cancelled_at is None


def test_ready_and_scheduled_messages_are_cancelled(admin_client: Client) -> None:
    chosen = [enqueue("mail.send"), enqueue("mail.send", delay=timedelta(hours=1))]
    kept = enqueue("mail.send")
    ids = [answer.id for answer in chosen]
    response = act(admin_client, "message", "cancel", *ids, confirmed="yes", reason="sent twice")
    assert notices(response) == "2 messages are cancelled."
    assert set(ArchivedMessage.objects.values_list("id", "outcome", "result__reason")) == {
        (pk, "cancelled", "sent twice") for pk in ids
    }
    assert [message.pk for message in Message.objects.all()] == [kept.id]
    assert logged() == [(f"mail.send #{pk}", "Cancelled: sent twice", "admin") for pk in ids]


def test_the_worker_of_what_is_leased_is_asked_to_stop(admin_client: Client) -> None:
    enqueue("mail.send")
    [delivery] = dequeue()
    response = act(admin_client, "message", "cancel", delivery.id, confirmed="yes", reason="")
    assert notices(response) == "1 message is leased: its worker is asked to stop."
    assert "to be cancelled" in admin_client.get(address("message")).content.decode()
    assert "to be cancelled" in admin_client.get(address("message", delivery.id)).content.decode()
    assert complete(delivery) == {delivery.id}
    assert logged() == [(f"mail.send #{delivery.id}", "Cancelled.", "admin")]


def test_cancelling_a_message_that_has_just_been_completed_is_no_error(admin_client: Client) -> None:
    enqueue("mail.send")
    [delivery] = dequeue()
    complete(delivery)
    response = act(admin_client, "message", "cancel", delivery.id, confirmed="yes", reason="")
    assert notices(response) == "0 messages are cancelled."
    assert ArchivedMessage.objects.get().outcome == "completed"
    assert logged() == []


def test_all_messages_of_a_filter_are_cancelled_up_to_a_number(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_actions, "BATCH_ROWS", 3)
    monkeypatch.setattr(bulk_actions, "MOST_ROWS", 7)
    enqueue_many(NewMessage(handler=handler) for handler in ["mail.send"] * 9 + ["mail.bounce"])
    [first] = Message.objects.filter(handler="mail.send").order_by("id")[:1]
    posted = {"action": "cancel", "select_across": "1", "_selected_action": first.pk, "confirmed": "yes", "reason": ""}
    path = f"{address('message')}?handler=mail.send"
    assert notices(admin_client.post(path, posted)) == f"7 messages are cancelled. | {MORE}"
    assert notices(admin_client.post(path, posted)) == "2 messages are cancelled."
    assert [message.handler for message in Message.objects.all()] == ["mail.bounce"]
    assert LogEntry.objects.count() == 9


def test_a_cancellation_that_the_archive_refuses_is_reported_and_changes_nothing(admin_client: Client) -> None:
    message = enqueue("mail.send")
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYYMMDD')")
        cursor.execute(f"DROP TABLE pgqueue_archived_message_{cursor.fetchone()[0]}")
    response = act(admin_client, "message", "cancel", message.id, confirmed="yes", reason="")
    assert "no partition for today" in notices(response)
    assert Message.objects.get().cancelled_at is None
    assert logged() == []
