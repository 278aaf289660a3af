"""Acts from the page of one object: which buttons it has, the page in between, and where one is led afterwards."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any

import pytest
from django.contrib.admin.models import DELETION, LogEntry
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client

from django_pgqueue import cancel, channel_pause, channel_release, complete, dequeue, enqueue
from django_pgqueue.models import Channel, DeadLetter, Message, Queue, Schedule, SharedLimit, Worker
from tests.admin.actions import (
    ACTIONS,
    ALLOWED,
    CONFIRMED,
    client_with_csrf_checks,
    everything,
    other_permissions,
    subject,
)
from tests.admin.conftest import VIEW, Page, address, logged, make_dead, told

HOUR = timedelta(hours=1)
# What is paused in `one_of_each` is resumed first.
PAUSED = {"channel": Channel, "queue": Queue, "sharedlimit": SharedLimit, "worker": Worker}


class Buttons(HTMLParser):
    """Texts of the buttons by the action that they name."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self.name: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "button" and given.get("form") == "pgqueue-actions":
            assert given["name"] == "action"
            self.name = given["value"]

    def handle_data(self, data: str) -> None:
        if self.name:
            self.found[self.name] = data
            self.name = None


def buttons(client: Client, model: str, pk: int) -> dict[str, str]:
    response = client.get(address(model, pk))
    assert response.status_code == 200
    page = response.content.decode()
    found = Buttons(page).found
    assert ('<form id="pgqueue-actions" method="post">' in page) == bool(found)
    return found


def press(client: Client, model: str, pk: int, action: str, query: str = "", **data: Any) -> HttpResponse:
    return client.post(address(model, pk) + query, {"action": action, **data})


def reset(model: str) -> None:
    """A pause is tried on what is not paused."""
    if model in PAUSED:
        PAUSED[model].objects.update(paused_at=None, pause_reason="")


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


def test_a_dead_letter_has_acts_until_it_is_redriven(admin_client: Client) -> None:
    [letter] = make_dead()
    assert list(buttons(admin_client, "deadletter", letter.pk)) == ["redrive", "edit", "discard"]
    press(admin_client, "deadletter", letter.pk, "redrive", confirmed="yes")
    assert buttons(admin_client, "deadletter", letter.pk) == {}


def test_what_is_paused_can_be_resumed_and_what_is_open_paused(admin_client: Client, one_of_each: Any) -> None:
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
    assert (told(response), response["Location"]) == ("1 schedule is disabled.", page)
    assert list(buttons(admin_client, "schedule", schedule.pk)) == ["run_now", "enable"]
    assert b"Run schedules now" in press(admin_client, "schedule", schedule.pk, "run_now").content
    response = press(admin_client, "schedule", schedule.pk, "run_now", confirmed="yes")
    assert (told(response), response["Location"]) == ("1 message is enqueued.", page)
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
    assert told(response) == "1 message is ready now."
    assert Message.objects.get(pk=other.id).status == Message.Status.SCHEDULED
    assert logged() == [(f"mail.send #{sent.id}", "To be retried now.", "admin")]


def test_an_act_is_on_this_object_whatever_else_is_posted(admin_client: Client) -> None:
    first, second = enqueue("mail.send"), enqueue("mail.send")
    others = {"select_across": "1", "_selected_action": [str(second.id)], "shown": "9", "after": "0", "reason": ""}
    response = press(admin_client, "message", first.id, "cancel", confirmed="yes", **others)
    assert told(response).startswith("1 message is cancelled.")
    assert [message.pk for message in Message.objects.all()] == [second.id]


@pytest.mark.parametrize("filters", ["", "?_changelist_filters=status__exact%3D3"])
def test_when_the_object_is_gone_the_list_follows(admin_client: Client, filters: str) -> None:
    [letter] = make_dead()
    response = press(
        admin_client, "deadletter", letter.pk, "discard", filters, confirmed="yes", reason="a test", shown="1"
    )
    assert told(response) == "1 dead letter is discarded."
    assert response["Location"] == address("deadletter") + ("?status__exact=3" if filters else "")
    entry = LogEntry.objects.get()
    assert (entry.action_flag, entry.change_message, entry.object_id) == (DELETION, "Discarded: a test", str(letter.pk))
    response = press(admin_client, "deadletter", letter.pk, "discard")
    assert (told(response), response["Location"]) == ("The object no longer exists.", address("deadletter"))


@pytest.mark.parametrize("name", ["next", "back", "url", "return", "_changelist_filters"])
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
    assert (told(response), response["Location"]) == ("The payload is replaced.", address("message", sent.id))
    assert Message.objects.get().payload == {"to": "y"}


@pytest.mark.parametrize("data", [{}, {"confirmed": "yes", "reason": "it hangs"}])
def test_what_has_changed_since_the_page_is_left_alone(admin_client: Client, data: dict[str, str]) -> None:
    sent = enqueue("mail.send")
    [taken] = dequeue()
    assert "release_leases" in buttons(admin_client, "message", sent.id)
    Message.objects.filter(pk=sent.id).update(status=Message.Status.READY, lease_token=None)
    response = press(admin_client, "message", sent.id, "release_leases", **data)
    assert told(response) == "Nothing was done: the state has changed since the page was loaded."
    assert response["Location"] == address("message", sent.id)
    Message.objects.filter(pk=sent.id).update(status=Message.Status.LEASED, lease_token=taken.token)
    complete(taken)
    response = press(admin_client, "message", sent.id, "release_leases", **data)
    assert (told(response), response["Location"]) == ("The object no longer exists.", address("message"))
    assert logged() == []


def test_a_viewer_has_no_buttons_and_can_do_nothing(viewer: Client, one_of_each: dict[str, int]) -> None:
    before = everything()
    for model, action in ACTIONS:
        pk = subject(one_of_each, model, action)
        assert buttons(viewer, model, pk) == {}, (model, action)
        for data in ({}, CONFIRMED):
            assert press(viewer, model, pk, action, **data).status_code == 403
            assert viewer.get(address(model, pk), {"action": action, **data}).status_code == 200
    assert everything() == before
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize(("model", "action"), ACTIONS)
def test_an_act_needs_its_own_permission_and_that_to_look(
    model: str, action: str, staff: Callable[..., Client], one_of_each: dict[str, int]
) -> None:
    if action == "pause":
        reset(model)
    others = other_permissions(model, action)
    pk = subject(one_of_each, model, action)
    before = everything()
    stranger = staff(*VIEW, *others)
    assert action not in buttons(stranger, model, pk)
    assert press(stranger, model, pk, action, **CONFIRMED).status_code == 403
    if not ALLOWED[model, action].startswith("change"):
        assert press(staff(ALLOWED[model, action]), model, pk, action, **CONFIRMED).status_code == 403
    assert everything() == before
    owner = staff(*VIEW, ALLOWED[model, action])
    assert action in buttons(owner, model, pk)
    assert press(owner, model, pk, action, **CONFIRMED).status_code == 302
    assert everything() != before
    assert LogEntry.objects.exists()


def test_a_post_without_csrf_token_does_nothing(admin_user: User, one_of_each: dict[str, int]) -> None:
    client = client_with_csrf_checks(admin_user)
    before = everything()
    for model, action in ACTIONS:
        pk = subject(one_of_each, model, action)
        assert press(client, model, pk, action, **CONFIRMED).status_code == 403
    assert everything() == before


def test_an_act_is_never_done_by_get(admin_client: Client, one_of_each: dict[str, int]) -> None:
    before = everything()
    for model, action in ACTIONS:
        pk = subject(one_of_each, model, action)
        assert admin_client.get(address(model, pk), {"action": action, **CONFIRMED}).status_code == 200
    assert everything() == before


@pytest.mark.parametrize("action", ["", "delete_selected", "perform", "__class__", "run_batch"])
def test_only_actions_are_acts(admin_client: Client, action: str) -> None:
    Schedule.objects.all().delete()
    schedule = Schedule.objects.create(name="nightly", handler="mail.send", cron="@daily")
    response = press(admin_client, "schedule", schedule.pk, action, post="yes", **CONFIRMED)
    assert response.status_code in (302, 403)
    assert Schedule.objects.get() == schedule
    assert press(admin_client, "message", enqueue("a").id, action, **CONFIRMED).status_code == 403
    assert Message.objects.exists()


def test_a_popup_has_no_buttons(admin_client: Client) -> None:
    pk = Channel.objects.get().pk
    assert b"pgqueue-actions" not in admin_client.get(address("channel", pk), {"_popup": "1"}).content
    assert press(admin_client, "channel", pk, "release", "?_popup=1", confirmed="yes").status_code == 403


def test_a_limit_is_still_edited(admin_client: Client) -> None:
    channel = Channel.objects.get()
    form = {"full_policy": "error", "release_burst": "1", "weight": "3", "context": "{}", "_save": "Save"}
    response = admin_client.post(address("channel", channel.pk), form)
    # The page of the channel shows what the limit does now.
    assert (response.status_code, response["Location"]) == (302, f"{address('channel')}{channel.pk}/tenant/")
    assert Channel.objects.get().weight == 3


def test_the_pages_are_free_of_inline_code(admin_client: Client, one_of_each: dict[str, int]) -> None:
    channel_pause(channel="default", reason="x")
    for model in ("channel", "queue", "message", "leased", "deadletter", "schedule", "sharedlimit", "worker"):
        page = admin_client.get(address("message" if model == "leased" else model, one_of_each[model]))
        assert Page(page.content.decode()).inline_code() == [], model
    assert DeadLetter.objects.get().redriven_at is None
