"""Acts from the page of one object: which buttons it has, the page in between, and where one is led afterwards."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import DELETION, LogEntry
from django.test import Client

from django_pgqueue import cancel, channel_pause, channel_release, complete, dequeue, enqueue
from django_pgqueue.models import Channel, DeadLetter, Message, Schedule
from tests.admin.conftest import Page, address, logged, make_dead, notices
from tests.admin.object_page import PAUSED, buttons, press, reset
from tests.support.cases import cases

HOUR = timedelta(hours=1)


def test_a_message_has_the_acts_of_its_state(admin_client: Client) -> None:
    ready, later = enqueue("mail.send"), enqueue("mail.send", delay=HOUR)
    assert buttons(admin_client, "message", ready.id) == {
        "reschedule": "Reschedule",
        "edit": "Edit the payload",
        "cancel": "Cancel",
        "discard": "Discard",
    }
    assert list(buttons(admin_client, "message", later.id)) == ["retry_now", "reschedule", "edit", "cancel", "discard"]
    dequeue()
    assert list(buttons(admin_client, "message", ready.id)) == ["release_leases", "cancel", "discard"]
    cancel(ready.id)
    assert list(buttons(admin_client, "message", ready.id)) == ["release_leases", "discard"]


def test_what_destroys_something_is_red(admin_client: Client) -> None:
    [letter] = make_dead()
    html = admin_client.get(address("deadletter", letter.pk)).text
    assert re.findall(r'name="action" value="(\w+)" class="button pgqueue-destructive"', html) == ["delete_dead"]
    assert 'class="default pgqueue-destructive"' in press(admin_client, "deadletter", letter.pk, "delete_dead").text
    assert "pgqueue-destructive" not in press(admin_client, "deadletter", letter.pk, "redrive").text


def test_a_dead_letter_has_acts_until_it_is_redriven(admin_client: Client) -> None:
    [letter] = make_dead()
    assert list(buttons(admin_client, "deadletter", letter.pk)) == ["redrive", "edit", "delete_dead"]
    press(admin_client, "deadletter", letter.pk, "redrive", confirmed="yes")
    assert buttons(admin_client, "deadletter", letter.pk) == {}


def test_a_paused_object_has_a_button_to_resume_it_and_an_open_one_to_pause_it(
    admin_client: Client, one_of_each: Any
) -> None:
    for model in sorted(PAUSED):
        assert "resume" in buttons(admin_client, model, one_of_each[model])
        assert "pause" not in buttons(admin_client, model, one_of_each[model])
        reset(model)
        assert "pause" in buttons(admin_client, model, one_of_each[model])
        assert "resume" not in buttons(admin_client, model, one_of_each[model])


def test_a_released_channel_is_not_released_again(admin_client: Client) -> None:
    pk = Channel.objects.get().pk
    enqueue("mail.send")
    assert list(buttons(admin_client, "channel", pk)) == ["pause", "purge", "release", "erase"]
    channel_release(channel="default")
    assert list(buttons(admin_client, "channel", pk)) == ["pause", "purge", "erase"]


def test_a_schedule_is_switched_and_run(admin_client: Client) -> None:
    Schedule.objects.all().delete()
    schedule = Schedule.objects.create(name="nightly", handler="mail.send", cron="@daily")
    page = address("schedule", schedule.pk)
    assert list(buttons(admin_client, "schedule", schedule.pk)) == ["run_now", "disable"]
    response = press(admin_client, "schedule", schedule.pk, "disable")
    assert (notices(response), response["Location"]) == ("1 schedule is disabled.", page)
    assert list(buttons(admin_client, "schedule", schedule.pk)) == ["run_now", "enable"]
    assert b"Run schedules now" in press(admin_client, "schedule", schedule.pk, "run_now").content
    response = press(admin_client, "schedule", schedule.pk, "run_now", confirmed="yes")
    assert (notices(response), response["Location"]) == ("1 message is enqueued.", page)
    assert [user for _, _, user in logged()] == ["admin", "admin"]


def test_there_is_none_where_an_object_is_made(admin_client: Client) -> None:
    for model in ("channel", "schedule"):
        page = admin_client.get(f"{address(model)}add/")
        assert page.status_code == 200
        assert b"pgqueue-actions" not in page.content


def test_an_act_asks_and_leads_back_to_the_object(admin_client: Client) -> None:
    sent, other = enqueue("mail.send", delay=HOUR), enqueue("mail.send", delay=HOUR)
    page = address("message", sent.id)
    response = press(admin_client, "message", sent.id, "retry_now")
    text = response.content.decode()
    assert "<h2>1 message</h2>" in text
    assert f"<li>mail.send #{sent.id}</li>" in text
    assert f'<form method="post" action="{page}">' in text
    assert f'<a href="{page}" class="closelink">' in text
    assert f'<a href="{page}">mail.send #{sent.id}</a>' in text
    assert Page(text).inline_code() == []
    response = admin_client.post(page, dict(response.context["hidden"]))
    assert (response.status_code, response["Location"]) == (302, page)
    assert notices(response) == "1 message is ready now."
    assert Message.objects.get(pk=other.id).status == Message.Status.SCHEDULED
    assert logged() == [(f"mail.send #{sent.id}", "To be retried now.", "admin")]


def test_an_act_is_on_this_object_whatever_else_is_posted(admin_client: Client) -> None:
    first, second = enqueue("mail.send"), enqueue("mail.send")
    others = {"select_across": "1", "_selected_action": [str(second.id)], "shown": "9", "after": "0", "reason": ""}
    response = press(admin_client, "message", first.id, "cancel", confirmed="yes", **others)
    assert notices(response).startswith("1 message is cancelled.")
    assert [message.pk for message in Message.objects.all()] == [second.id]


@pytest.mark.parametrize("filters", ["", "?_changelist_filters=status__exact%3D3"])
def test_when_the_object_is_gone_the_list_follows(admin_client: Client, filters: str) -> None:
    [letter] = make_dead()
    response = press(
        admin_client, "deadletter", letter.pk, "delete_dead", filters, confirmed="yes", reason="a test", shown="1"
    )
    assert notices(response) == "1 dead letter is deleted."
    assert response["Location"] == address("deadletter") + ("?status__exact=3" if filters else "")
    entry = LogEntry.objects.get()
    assert (entry.action_flag, entry.change_message, entry.object_id) == (DELETION, "Deleted: a test", str(letter.pk))
    response = press(admin_client, "deadletter", letter.pk, "delete_dead")
    assert (notices(response), response["Location"]) == ("The object no longer exists.", address("deadletter"))


@cases("name", ["next", "back", "url", "return", "_changelist_filters"])
def test_no_address_from_elsewhere_is_followed(admin_client: Client, name: str) -> None:
    evil = "//evil.example/"
    for action, pk in (("retry_now", enqueue("a", delay=HOUR).id), ("discard", enqueue("a").id)):
        query = f"?{name}={evil}"
        response = press(admin_client, "message", pk, action, query, **{name: evil})
        for link in (tag for tag in Page(response.content.decode()).tags if tag[0] in ("a", "form")):
            assert not (link[1].get("href") or link[1].get("action") or "").startswith((evil, "http"))
        response = press(admin_client, "message", pk, action, query, **{name: evil}, confirmed="yes", reason="")
        assert response["Location"].startswith("/admin/pgqueue/message/")


def test_a_form_with_errors_comes_back(admin_client: Client) -> None:
    pk = Channel.objects.get().pk
    response = press(admin_client, "channel", pk, "pause", confirmed="yes", reason="")
    assert b"This field is required" in response.content
    response = press(admin_client, "channel", pk, "pause", confirmed="yes", reason="flood")
    assert response["Location"] == address("channel", pk)
    assert Channel.objects.get().pause_reason == "flood"


def test_a_payload_is_edited_from_its_page(admin_client: Client) -> None:
    sent = enqueue("mail.send", {"to": "x"})
    assert b"&quot;to&quot;: &quot;x&quot;" in press(admin_client, "message", sent.id, "edit").content
    response = press(admin_client, "message", sent.id, "edit", confirmed="yes", payload='{"to": "y"}')
    assert (notices(response), response["Location"]) == ("The payload is replaced.", address("message", sent.id))
    assert Message.objects.get().payload == {"to": "y"}


@pytest.mark.parametrize("data", [{}, {"confirmed": "yes", "reason": "it hangs"}])
def test_an_action_on_a_state_that_has_changed_since_the_page_was_loaded_does_nothing(
    admin_client: Client, data: dict[str, str]
) -> None:
    sent = enqueue("mail.send")
    [taken] = dequeue()
    assert "release_leases" in buttons(admin_client, "message", sent.id)
    Message.objects.filter(pk=sent.id).update(status=Message.Status.READY, lease_token=None)
    response = press(admin_client, "message", sent.id, "release_leases", **data)
    assert notices(response) == "Nothing was done: the state has changed since the page was loaded."
    assert response["Location"] == address("message", sent.id)
    Message.objects.filter(pk=sent.id).update(status=Message.Status.LEASED, lease_token=taken.token)
    complete(taken)
    response = press(admin_client, "message", sent.id, "release_leases", **data)
    assert (notices(response), response["Location"]) == ("The object no longer exists.", address("message"))
    assert logged() == []


def test_a_limit_is_still_edited(admin_client: Client) -> None:
    channel = Channel.objects.get()
    form = {"full_policy": "error", "on_dead": "continue", "release_burst": "1", "weight": "3", "context": "{}"}
    response = admin_client.post(address("channel", channel.pk), form | {"_save": "Save"})
    # The page of the channel shows what the limit does now.
    assert (response.status_code, response["Location"]) == (302, f"{address('channel')}{channel.pk}/tenant/")
    assert Channel.objects.get().weight == 3


def test_the_pages_are_free_of_inline_code(admin_client: Client, one_of_each: dict[str, int]) -> None:
    channel_pause(channel="default", reason="x")
    for model in ("channel", "queue", "message", "leased", "deadletter", "schedule", "sharedlimit", "worker"):
        page = admin_client.get(address("message" if model == "leased" else model, one_of_each[model]))
        assert Page(page.content.decode()).inline_code() == [], model
    assert DeadLetter.objects.get().redriven_at is None
