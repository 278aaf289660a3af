"""The dashboard in an incident: what fails, where, since when, why, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.db.models import F
from django.test import Client
from django.utils.http import urlencode

from django_pgqueue import channel_set, dequeue, enqueue, handler_pause, redrive, retry
from django_pgqueue.admin.dashboard import incidents
from django_pgqueue.models import DeadLetter, SharedLimit
from tests.admin.conftest import Page, logged, make_dead
from tests.admin.dashboard_page import look, shown

LIST = "/admin/pgqueue/deadletter/"
ADDRESS_OF_SWITCH = "/admin/pgqueue/sharedlimit/handler/?"


def failed(message: str, channel: str = "acme", *, handler: str = "crm.push", **more: Any) -> DeadLetter:
    channel_set(channel=channel, queue=more.get("queue", "default"))
    details = {"type": "ConnectionError", "message": message}
    return make_dead(details=details, reason="failed", channel=channel, handler=handler, **more)[0]


def redrives(html: str) -> list[tuple[str, str]]:
    """Return the address and the selected letter of each button."""
    button = r'class="pgqueue-redrive" method="post" action="([^"]+)".*?_selected_action" value="(\d+)"'
    return [(unescape(address), pk) for address, pk in re.findall(button, html, re.DOTALL)]


def switches(html: str) -> list[str]:
    """Return the addresses of the pages that pause or resume a handler."""
    return [unescape(address) for address in re.findall(r'class="button" href="([^"]+)"', html)]


def test_errors_are_grouped_without_their_numbers_and_ids(admin_client: Client) -> None:
    failed("timeout after 30 s in 4be0643f-1d98-573b-97cd-ca98a65347dd")
    failed("timeout after 5 s\n in 00000000-1d98-573b-97cd-ca98a65347dd", "shop2")
    newest = failed("timeout after 7 s in 17", "shop2", queue="other")
    failed("refused")
    html = look(admin_client)
    text = shown(html)
    assert re.search(
        r"crm\.push has failed for 3 channels since \d\d:\d\d: ConnectionError: timeout after # s in # "
        r"\(3 dead, the last .*? ago\) Look at one All of them Redrive Pause handler",
        text,
    )
    assert re.search(r"for default/acme since \d\d:\d\d: ConnectionError: refused \(1 dead", text)
    assert f'href="{LIST}{newest.pk}/change/"' in html
    assert "ConnectionError: timeout" not in shown(look(admin_client, queue="none"))
    assert "for default/acme" in shown(look(admin_client, queue="default"))


def test_the_largest_three_are_shown(admin_client: Client) -> None:
    for place in range(5):
        for _ in range(place + 1):
            failed("x", handler=f"h{'abcde'[place]}")
    assert re.findall(r"(h[a-e]) has failed", shown(look(admin_client))) == ["he", "hd", "hc"]


def test_the_button_asks_and_then_redrives_the_group_alone(admin_client: Client) -> None:
    first, second = failed("after 1 s"), failed("after 2 s")
    other, foreign = failed("refused"), failed("after 1 s", handler="mail.send")
    address, selected = redrives(look(admin_client))[0]
    listed = admin_client.get(address).content.decode()
    assert listed.count('class="action-select"') == 2
    data = {"action": "redrive", "select_across": "1", "_selected_action": selected}
    asked = admin_client.post(address, data).content.decode()
    assert "<h2>2 dead letters</h2>" in asked
    assert not DeadLetter.objects.exclude(redriven_at=None).exists()
    admin_client.post(address, {**data, "confirmed": "yes"})
    assert set(DeadLetter.objects.filter(redriven_at=None)) == {other, foreign}
    assert {first, second} == set(DeadLetter.objects.exclude(redriven_at=None))
    assert "after # s (2 dead" not in shown(look(admin_client))


def test_what_is_redriven_or_older_than_a_day_does_not_count(admin_client: Client) -> None:
    old, again = failed("x"), failed("x")
    DeadLetter.objects.filter(pk=old.pk).update(dead_at=F("dead_at") - timedelta(hours=25))
    redrive([again.pk])
    assert "has failed" not in shown(look(admin_client))


def test_messages_that_wait_for_a_retry_count(admin_client: Client, staff: Callable[..., Client]) -> None:
    failed("after 1 s")
    channel_set(channel="shop2")
    for channel in ("acme", "shop2"):
        enqueue("crm.push", channel=channel)
    taken = dequeue(limit=2)
    error = {"type": "ConnectionError", "message": "after 20 s"}
    retry(taken, errors=[error] * 2, delays=[timedelta(hours=1)] * 2)
    enqueue("crm.push", channel="acme", delay=timedelta(hours=1))
    html = look(admin_client)
    assert "for 2 channels since" in shown(html)
    assert "after # s (1 dead, 2 wait for a retry, the last" in shown(html)
    [address] = re.findall(r'<a href="([^"]+)">All retries', html)
    listed = admin_client.get(unescape(address)).context["cl"].result_list
    assert {message.pk for message in listed} == {delivery.id for delivery in taken}
    assert "(1 dead, the last" in shown(look(staff("view_dashboard", "view_deadletter")))
    assert "(2 wait for a retry, the last" in shown(look(staff("view_dashboard", "view_message")))


def test_interruptions_are_no_failures(admin_client: Client) -> None:
    enqueue("crm.push")
    [taken] = dequeue()
    retry([taken], errors=[{"type": "Stopped"}], delays=[timedelta(hours=1)], max_interruptions=20)
    assert "has failed" not in shown(look(admin_client))


def test_the_button_asks_for_a_reason_and_pauses_the_handler(admin_client: Client) -> None:
    failed("refused")
    enqueue("crm.push", channel="acme")
    [address] = switches(look(admin_client))
    assert "No more messages of the handler crm.push are delivered" in admin_client.get(address).text
    assert dequeue(worker="w") != [], "asking changes nothing"
    answer = admin_client.post(address, {"action": "pause", "reason": "the CRM is down", "minutes": "30"}, follow=True)
    assert "Handler crm.push: Paused until" in answer.text
    assert "ConnectionError: refused" in shown(answer.text)
    assert "The handler is paused." in shown(answer.text)
    enqueue("crm.push", channel="acme")
    assert dequeue() == []
    assert logged()[-1][0::2] == ("handler crm.push", "admin")
    assert "are delivered again" in admin_client.get(address).text
    admin_client.post(address, {"action": "resume"})
    assert [delivery.handler for delivery in dequeue()] == ["crm.push"]


def test_a_paused_handler_is_shown_also_when_nothing_fails(admin_client: Client) -> None:
    handler_pause("crm.push", reason="down")
    enqueue("crm.push")
    assert dequeue() == []
    text = shown(look(admin_client))
    assert "1 message waits for crm.push. The handler is paused. Resume handler" in text


def test_a_pause_needs_its_permission_and_a_reason(admin_client: Client, staff: Callable[..., Client]) -> None:
    failed("refused")
    [address] = switches(look(admin_client))
    seen = ("view_dashboard", "view_deadletter")
    assert switches(look(staff(*seen))) == []
    assert staff(*seen).post(address, {"action": "pause", "reason": "x"}).status_code == 403
    assert switches(look(staff(*seen, "pause_sharedlimit"))) == [address]
    assert "This field is required" in admin_client.post(address, {"action": "pause"}).text
    for name in ("x" * 300, "", "\0"):
        admin_client.post(ADDRESS_OF_SWITCH + urlencode({"handler": name}), {"action": "pause", "reason": "x"})
    assert not SharedLimit.objects.exists()


def test_it_says_at_least_when_there_are_more(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for bound in ("MOST_GROUPED", "MOST_DEAD"):
        monkeypatch.setattr(incidents, bound, 2)
        for _ in range(3):
            failed("x")
        text = shown(look(admin_client))
        assert "for at least 1 channel since" in text
        assert "(at least 2 dead" in text
        monkeypatch.undo()


def test_the_button_of_a_blank_error_takes_no_other_letters(admin_client: Client) -> None:
    channel_set(channel="acme")
    blank = make_dead(2, details={"message": "  "}, channel="acme", handler="crm.push")
    failed("x")
    address, _ = redrives(look(admin_client))[0]
    assert admin_client.get(address).content.decode().count('class="action-select"') == len(blank)


def test_permissions_hide_errors_and_the_button(staff: Callable[..., Client]) -> None:
    failed("secret words")
    assert "secret words" not in look(staff("view_dashboard"))
    viewer = look(staff("view_dashboard", "view_deadletter"))
    assert "secret words" in viewer
    assert redrives(viewer) == []
    assert len(redrives(look(staff("view_dashboard", "view_deadletter", "redrive_deadletter")))) == 1


def test_hostile_errors_are_text(admin_client: Client) -> None:
    failed('"><canary canary onclick=x>%s', '"><canary>', handler="h")
    make_dead(details=["<canary>"], reason="<canary>")
    html = look(admin_client)
    assert "<canary canary" in shown(html) or "&lt;canary" in html
    assert Page(html).canaries() == []
    assert Page(html).inline_code() == []
    for address, _ in redrives(html):
        assert admin_client.get(address).content.decode().count('class="action-select"') == 1
