"""Acts on messages from the list: a page in between, batches, the history, and what was left alone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import DELETION, LogEntry
from django.test import Client
from django.utils import timezone

from django_pgqueue import NewMessage, complete, dequeue, enqueue, enqueue_many
from django_pgqueue.admin import bulk_actions
from django_pgqueue.models import Channel, DeadLetter, Message
from tests.admin.conftest import act, address, logged, make_dead, notices
from tests.admin.test_messages import MORE
from tests.support.cases import cases

LATER = timedelta(hours=1)


def everything(action: str, **data: str) -> dict[str, str]:
    """The answer of the page in between, for all that match."""
    return {"action": action, "select_across": "1", "_selected_action": "0", "confirmed": "yes", **data}


def test_scheduled_messages_are_retried_now(admin_client: Client) -> None:
    late = enqueue("mail.send", delay=LATER)
    soon = enqueue("mail.send")
    text = act(admin_client, "message", "retry_now", late.id, soon.id).content.decode()
    assert "whatever their back-off says" in text
    assert "<h2>2 messages</h2>" in text
    assert Message.objects.get(pk=late.id).status == Message.Status.SCHEDULED
    response = act(admin_client, "message", "retry_now", late.id, soon.id, confirmed="yes")
    assert notices(response) == "1 message is ready now. | 1 message was ready already."
    assert {delivery.id for delivery in dequeue(limit=5)} == {late.id, soon.id}
    assert logged() == [(f"mail.send #{late.id}", "To be retried now.", "admin")]


def test_messages_are_put_off(admin_client: Client) -> None:
    waiting, _held = enqueue("mail.send", priority=-1), enqueue("mail.send")
    [held] = dequeue()
    pks = (waiting.id, held.id)
    text = act(admin_client, "message", "reschedule", *pks).content.decode()
    assert 'type="datetime-local"' in text
    assert "In the time zone UTC" in text
    response = act(admin_client, "message", "reschedule", *pks, confirmed="yes", at="soon")
    assert "Enter a valid date/time" in response.content.decode()
    response = act(admin_client, "message", "reschedule", *pks, confirmed="yes", at="2100-01-01T06:00")
    assert notices(response) == "1 message is rescheduled. | 1 message is unchanged: a worker has it."
    at = timezone.make_aware(timezone.datetime(2100, 1, 1, 6))
    assert Message.objects.get(pk=waiting.id).dequeue_at == at
    assert logged()[0][1].startswith("Rescheduled to 1 Jan 2100, 06:00")


def test_leases_are_released(admin_client: Client) -> None:
    for _ in range(2):
        enqueue("mail.send")
    enqueue("mail.send", max_attempts=1, priority=1)
    held = dequeue(limit=3, worker="gone")
    waiting = enqueue("mail.send")
    response = act(admin_client, "message", "release_leases", *(d.id for d in held), waiting.id)
    assert "<h2>3 messages</h2>" in response.content.decode()
    path = f"{address('message')}?worker=gone"
    response = admin_client.post(path, everything("release_leases", reason="the host died"))
    assert notices(response) == "2 leases are released. | 1 message had no attempt left: it is a dead letter."
    assert DeadLetter.objects.get().reason == "poison"
    assert len(dequeue(limit=5)) == 3
    assert {text for _, text, _ in logged()} == {"Lease released: the host died"}
    assert len(logged()) == 3


def test_messages_are_discarded_and_can_come_back(admin_client: Client) -> None:
    sent = enqueue("mail.send", {"n": 1})
    response = act(admin_client, "message", "discard", sent.id, confirmed="yes", reason="kills the workers")
    assert notices(response) == "1 message is discarded."
    assert "kills the workers" in admin_client.get(address("deadletter")).content.decode()
    act(admin_client, "deadletter", "redrive", sent.id, confirmed="yes")
    assert [delivery.payload for delivery in dequeue()] == [{"n": 1}]


def test_one_payload_is_edited(admin_client: Client) -> None:
    sent, other = enqueue("mail.send", {"to": "Grüße"}), enqueue("mail.send")
    text = act(admin_client, "message", "edit", sent.id).content.decode()
    assert "&quot;to&quot;: &quot;Grüße&quot;" in text
    for wrong, complaint in (("{", "Enter a valid JSON."), ("", "Give JSON, or null")):
        response = act(admin_client, "message", "edit", sent.id, confirmed="yes", payload=wrong)
        assert complaint in response.content.decode()
    response = act(admin_client, "message", "edit", sent.id, confirmed="yes", payload='{"to": "secret"}')
    assert notices(response) == "The payload is replaced."
    assert Message.objects.get(pk=sent.id).payload == {"to": "secret"}
    assert logged() == [(f"mail.send #{sent.id}", "The payload is replaced.", "admin")]
    assert (
        notices(act(admin_client, "message", "edit", sent.id, other.id)) == "Select one row: a payload is edited alone."
    )
    dequeue()
    response = act(admin_client, "message", "edit", sent.id, confirmed="yes", payload="1")
    assert notices(response) == "1 message is unchanged: a worker has it."


def test_a_payload_that_cannot_be_stored_is_reported(admin_client: Client) -> None:
    sent = enqueue("mail.send", 7)
    response = act(admin_client, "message", "edit", sent.id, confirmed="yes", payload=r'{"a": "\u0000"}')
    assert "u0000" in notices(response)
    assert Message.objects.get().payload == 7
    assert logged() == []


def test_no_more_are_acted_on_than_the_page_showed(admin_client: Client) -> None:
    for _ in range(3):
        enqueue("mail.send")
    path = f"{address('message')}?handler=mail.send"
    page = admin_client.post(path, everything("cancel", confirmed="", index="0")).content.decode()
    assert "<h2>3 messages</h2>" in page
    assert '<input type="hidden" name="shown" value="3">' in page
    for _ in range(2):
        enqueue("mail.send")
    response = admin_client.post(path, everything("cancel", reason="", shown="3"))
    assert notices(response) == f"3 messages are cancelled. | {MORE}"
    assert Message.objects.count() == 2


def test_rows_that_are_gone_since_the_page_was_loaded_are_reported(admin_client: Client) -> None:
    for _ in range(3):
        enqueue("mail.send")
    complete(dequeue())
    response = admin_client.post(address("message"), everything("cancel", reason="", shown="3"))
    assert notices(response) == "2 messages are cancelled. | 1 of the rows on the page no longer matches."


@pytest.mark.parametrize("action", ["cancel", "retry_now", "reschedule", "discard"])
def test_the_page_in_between_does_not_ask_for_each_message(
    admin_client: Client, django_assert_max_num_queries: Any, action: str
) -> None:
    """A worker may take one of them in the meantime."""
    enqueue_many(NewMessage(handler="mail.send") for _ in range(30))
    with django_assert_max_num_queries(14):
        response = admin_client.post(address("message"), everything(action, confirmed="", index="0"))
    assert b"<h2>30 messages</h2>" in response.content


@pytest.mark.parametrize("model", ["message", "deadletter"])
def test_when_the_time_of_a_request_is_over_the_page_asks_whether_to_go_on(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    monkeypatch.setattr(bulk_actions, "BATCH_ROWS", 2)
    monkeypatch.setattr(bulk_actions, "REQUEST_SECONDS", 0.0)
    if model == "message":
        enqueue_many(NewMessage(handler="mail.send") for _ in range(5))
        action, done, left = "cancel", "messages are cancelled", Message.objects.all()
    else:
        make_dead(5)
        action, done, left = "redrive", "dead letters are redriven", DeadLetter.objects.filter(redriven_at=None)
    posted, counts = everything(action, reason="why", shown="5"), []
    for _ in range(3):
        response = admin_client.post(address(model), posted)
        counts.append(left.count())
        if response.status_code == 302:
            break
        assert f"2 {done}" in response.content.decode()
        assert f"<h2>{counts[-1]} " in response.content.decode()
        assert "Go on" in response.content.decode()
        posted = dict(response.context["hidden"]) | {"reason": "why"}
    assert counts == [3, 1, 0]
    assert LogEntry.objects.count() == 5


@cases("rate", ["0.1", "6/m", "1 / 10s"])
def test_a_redrive_keeps_a_rate(admin_client: Client, rate: str) -> None:
    letters = make_dead(4)
    before = timezone.now()
    pks = [letter.pk for letter in letters]
    assert 'name="rate"' in act(admin_client, "deadletter", "redrive", *pks).content.decode()
    response = act(admin_client, "deadletter", "redrive", *pks, confirmed="yes", rate=rate)
    assert notices(response).startswith("4 dead letters are redriven. | They are scheduled; the last is due at ")
    due = dict(Message.objects.values_list("redriven_from", "dequeue_at"))
    waits = [round((due[pk] - due[pks[0]]).total_seconds()) for pk in pks]
    assert waits == [0, 10, 20, 30]
    assert before <= due[pks[0]] <= timezone.now()
    assert len(dequeue(limit=5)) == 1


@cases("rate", ["0", "-1", "nan", "many", "1e9", "0/m", "10/y", "10/m burst 5"])
def test_a_rate_that_is_none_is_refused(admin_client: Client, rate: str) -> None:
    [letter] = make_dead()
    response = act(admin_client, "deadletter", "redrive", letter.pk, confirmed="yes", rate=rate)
    assert b"errorlist" in response.content
    assert not Message.objects.exists()


def test_a_rate_goes_on_over_requests(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_actions, "BATCH_ROWS", 2)
    monkeypatch.setattr(bulk_actions, "REQUEST_SECONDS", 0.0)
    make_dead(4)
    response = admin_client.post(address("deadletter"), everything("redrive", shown="4", rate="0.1"))
    posted = dict(response.context["hidden"]) | {"rate": "0.1"}
    assert admin_client.post(address("deadletter"), posted).status_code == 302
    times = sorted(Message.objects.values_list("dequeue_at", flat=True))
    assert [(later - times[1]).total_seconds() for later in times[1:]] == [0, 10, 20]


def test_a_dead_letter_is_redriven_with_another_payload(admin_client: Client) -> None:
    [letter] = make_dead(payload={"to": "x"})
    assert "&quot;to&quot;: &quot;x&quot;" in act(admin_client, "deadletter", "edit", letter.pk).content.decode()
    response = act(admin_client, "deadletter", "edit", letter.pk, confirmed="yes", payload='{"to": "y"}')
    message = Message.objects.get()
    assert (message.payload, message.redriven_from) == ({"to": "y"}, letter.pk)
    assert notices(response) == f"Redriven with another payload, as message {message.pk}."
    assert DeadLetter.objects.get().payload == {"to": "x"}
    assert logged() == [(f"mail.send #{letter.pk}: refused", notices(response), "admin")]
    again = act(admin_client, "deadletter", "edit", letter.pk, confirmed="yes", payload="1")
    assert notices(again) == "Select one row: a payload is edited alone."


def test_dead_letters_are_deleted(admin_client: Client) -> None:
    first, second, redriven = make_dead(3)
    act(admin_client, "deadletter", "redrive", redriven.pk, confirmed="yes")
    pks = (first.pk, second.pk, redriven.pk)
    text = act(admin_client, "deadletter", "delete_dead", *pks).content.decode()
    assert "<h2>2 dead letters</h2>" in text
    assert "No redrive brings them back" in text
    assert DeadLetter.objects.count() == 3
    response = act(admin_client, "deadletter", "delete_dead", *pks, confirmed="yes", shown="2", reason="a test run")
    assert notices(response) == "2 dead letters are deleted."
    assert DeadLetter.objects.get().pk == redriven.pk
    entries = LogEntry.objects.order_by("-pk")[:2]
    assert {entry.object_id for entry in entries} == {str(first.pk), str(second.pk)}
    assert {(entry.action_flag, entry.change_message) for entry in entries} == {(DELETION, "Deleted: a test run")}


def test_all_dead_letters_that_match_are_deleted_in_batches(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_actions, "BATCH_ROWS", 2)
    monkeypatch.setattr(bulk_actions, "LOGGED_ROWS", 1)
    make_dead(4, reason="spam")
    [other] = make_dead()
    path = f"{address('deadletter')}?reason=spam"
    page = admin_client.post(path, everything("delete_dead", confirmed="", index="0")).content.decode()
    assert "<h2>4 dead letters</h2>" in page
    response = admin_client.post(path, everything("delete_dead", reason="", shown="4"))
    assert notices(response) == "4 dead letters are deleted."
    assert DeadLetter.objects.get().pk == other.pk
    assert [name.split(",")[0] for name, text, _ in logged() if text == "Deleted."] == ["2 dead letters"] * 2


def test_a_dead_letter_that_a_lake_lacks_is_not_deleted(admin_client: Client, settings: Any) -> None:
    settings.DJANGO_PGQUEUE = {"KEEP_UNTIL_EXPORTED": True, "LAKE": "/srv/lake"}
    [letter] = make_dead()
    response = act(admin_client, "deadletter", "delete_dead", letter.pk, confirmed="yes")
    assert notices(response) == "0 dead letters are deleted. | 1 dead letter stays until a lake has it."
    assert logged() == []


def test_a_channel_is_paused_for_some_minutes(admin_client: Client) -> None:
    pk = Channel.objects.get().pk
    assert 'name="minutes"' in act(admin_client, "channel", "pause", pk).content.decode()
    act(admin_client, "channel", "pause", pk, confirmed="yes", reason="flood", minutes="30")
    channel = Channel.objects.get()
    assert abs(channel.paused_until - timezone.now() - timedelta(minutes=30)) < timedelta(minutes=1)
    assert "paused until" in admin_client.get(address("channel")).content.decode()
    assert logged()[0][1].startswith("Paused until ")
    act(admin_client, "channel", "resume", pk)
    assert Channel.objects.get().paused_until is None
