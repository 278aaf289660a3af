"""The page of one channel: when there is nothing to show, to whom it is shown, and from where it is linked."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from django_pgqueue import NewMessage, channel_set, dequeue, enqueue, enqueue_many, measure, pop
from django_pgqueue.models import Channel, Schedule, Worker
from tests.admin.conftest import Page, address, logged, make_dead, make_metric, notices
from tests.admin.tenant_page import AT_ONCE, VIEW_ALL, look, named, page_of
from tests.support.cases import cases

# Empty states


def test_a_channel_without_messages_says_that_there_is_nothing(admin_client: Client, tenant: Channel) -> None:
    shown = look(admin_client, tenant)
    for sentence in (
        "Nothing of it is ready.",
        "No message of this channel is leased.",
        "No dead letter of this channel waits for a redrive.",
    ):
        assert sentence in shown
    # Each chart says so, and none draws empty axes.
    assert shown.count("Nothing in this period.") == 4


def test_before_the_first_measurement_the_page_says_so(admin_client: Client, tenant: Channel) -> None:
    connection.cursor().execute("DELETE FROM pgqueue_measurement")
    enqueue("h", channel="acme")
    shown = look(admin_client, tenant)
    assert "There are no figures yet" in shown
    assert "ready 1 oldest waits for" in shown


@cases("pk", ["999999", "abc", "9" * 40, "_5F"])
def test_a_channel_that_does_not_exist_is_not_found(pk: str, admin_client: Client) -> None:
    response = admin_client.get(f"{address('channel')}{pk}/tenant/")
    assert response.status_code == 404
    assert "No channel has this id." in response.text


def test_a_channel_that_is_gone_leads_to_what_is_left_of_it(admin_client: Client) -> None:
    for name in ("gone", "<b>", "nul\0"):
        response = admin_client.get(reverse("admin:pgqueue_channel_named"), {"queue": "default", "channel": name})
        assert response.status_code == 404
        assert f"The queue default has no channel {name.strip(chr(0))}." in unescape(response.text)
        assert Page(response.text).inline_code() == []
        query = "?queue=default&amp;channel="
        assert f"{address('deadletter')}{query}" in response.text
        assert f"{address('archivedmessage')}{query}" in response.text


# Permissions


def test_the_page_needs_the_permission_to_view_channels(staff: Callable[..., Client], tenant: Channel) -> None:
    client = staff("view_message", "view_deadletter")
    assert client.get(page_of(tenant)).status_code == 403
    assert client.get(reverse("admin:pgqueue_channel_named"), {"channel": "acme"}).status_code == 403
    assert client.post(page_of(tenant), {"action": "resume"}).status_code == 403
    assert Client().get(page_of(tenant)).status_code == 302


def test_a_viewer_sees_no_actions(staff: Callable[..., Client], tenant: Channel) -> None:
    make_dead(channel="acme")
    client = staff(*VIEW_ALL)
    html = client.get(page_of(tenant)).text
    assert "<button" not in html.partition('id="content"')[2]
    assert "Edit limits" not in html
    assert "All settings" in html
    assert "Open the list to redrive" not in html
    for action in ("pause", "purge", "release"):
        posted = {"action": action, "confirmed": "yes", "reason": "x"}
        assert client.post(page_of(tenant), posted).status_code == 403
    tenant.refresh_from_db()
    assert (tenant.paused_at, tenant.released_at) == (None, None)


def test_a_viewer_of_channels_sees_no_messages_and_no_links_to_them(
    staff: Callable[..., Client], tenant: Channel
) -> None:
    enqueue("mail.secret", channel="acme")
    dequeue(limit=1, worker="host:7")
    make_dead(handler="mail.secret", channel="acme", reason="secret_reason")
    enqueue("mail.secret", channel="acme")
    pop("default", 1)
    html = staff("view_channel").get(page_of(tenant)).text
    for text in ("mail.", "secret", 'id="pgqueue-leases"', 'id="pgqueue-letters"'):
        assert text not in html.partition("pgqueue-tiles")[2], text
    links = set(re.findall(r'href="(/admin/pgqueue/\w+/)', html.partition('id="content"')[2]))
    assert links == {address("channel")}


def test_the_page_shows_no_payload(admin_client: Client, tenant: Channel) -> None:
    enqueue("h", {"card": "4111-1111"}, channel="acme")
    dequeue(limit=1)
    make_dead(channel="acme", payload={"card": "4111-1111"})
    assert "4111" not in admin_client.get(page_of(tenant)).text


@pytest.mark.parametrize(
    ("codename", "button"), [("pause_channel", "pause"), ("purge_channel", "purge"), ("change_channel", "release")]
)
def test_each_action_needs_its_permission(
    codename: str, button: str, staff: Callable[..., Client], tenant: Channel
) -> None:
    html = staff("view_channel", codename).get(page_of(tenant)).text
    assert re.findall(r'name="action" value="(\w+)"', html) == [button]


def test_a_channel_is_paused_and_resumed_from_its_page(admin_client: Client, tenant: Channel) -> None:
    page = page_of(tenant)
    asked = admin_client.post(page, {"action": "pause"})
    assert 'name="reason"' in asked.text
    assert f'action="{page}"' in asked.text
    response = admin_client.post(page, {"action": "pause", "confirmed": "yes", "reason": "x"})
    assert (response.status_code, response["Location"]) == (302, page)
    assert notices(response) == "1 channel is paused."
    response = admin_client.post(page, {"action": "resume"})
    assert (response.status_code, response["Location"]) == (302, page)
    assert logged() == [("default/acme", "Paused: x", "admin"), ("default/acme", "Resumed.", "admin")]


def test_a_post_without_a_known_action_is_refused(admin_client: Client, tenant: Channel) -> None:
    for action in ("", "get_urls", "delete_selected"):
        assert admin_client.post(page_of(tenant), {"action": action}).status_code == 403


def test_after_an_edit_the_page_is_shown_again_with_the_filters_of_the_list(
    admin_client: Client, tenant: Channel
) -> None:
    listed = admin_client.get(address("channel"), {"queue": "default"}).text
    query = "?_changelist_filters=queue%3Ddefault"
    assert f'<a href="{page_of(tenant)}{query}">' in listed
    html = admin_client.get(page_of(tenant) + query).text
    assert f'href="{address("channel")}?queue=default"' in html
    assert f'href="{address("channel", tenant.pk)}{query}"' in html
    form = {"full_policy": "error", "on_dead": "continue", "release_burst": "1", "weight": "2", "context": "{}"}
    response = admin_client.post(address("channel", tenant.pk) + query, form | {"_save": "Save"})
    assert response["Location"] == page_of(tenant) + query
    assert page_of(tenant) in admin_client.get(address("channel", tenant.pk)).text


# Links


def test_a_name_leads_to_the_page(admin_client: Client) -> None:
    name = "ACME & Söhne/🚀"
    pk = channel_set(channel=name, queue="mail")
    response = admin_client.get(reverse("admin:pgqueue_channel_named"), {"queue": "mail", "channel": name})
    assert (response.status_code, response["Location"]) == (302, page_of(pk))


def test_it_is_linked_from_everywhere_its_name_stands(page: Callable[..., str], tenant: Channel) -> None:
    by_pk, by_name = f'href="{page_of(tenant)}', f'href="{named("default", "acme")}"'
    [letter] = make_dead(channel="acme")
    enqueue("h", channel="acme")
    [popped] = pop("default", 1)
    enqueue("h", channel="acme")
    [leased] = dequeue(limit=1, worker="w")
    message = enqueue("h", channel="acme").id
    schedule = Schedule.objects.create(name="s", handler="h", cron="@daily", channel="acme")
    declared = Schedule.objects.create(name="t", handler="h", cron="@daily", channel="acme", declared_in="shop.jobs")
    running = [{"id": leased.id, "seconds": 1.0, "seconds_left": None}, {"id": [1], "seconds": 1}]
    worker = Worker.objects.create(
        name="w", hostname="h", pid=1, queues=["default"], concurrency=1, version="1", running=running
    )
    metric = make_metric(channel="acme")
    metric.save()
    measure(AT_ONCE)
    for model, pk in (
        ("channel", None), ("channel", tenant.pk), ("message", None), ("message", message), ("worker", worker.pk),
    ):  # fmt: skip
        assert by_pk in page(model, pk), (model, pk)
    for model, pk in (
        ("deadletter", None), ("deadletter", letter.pk), ("archivedmessage", None), ("archivedmessage", popped.id),
        ("schedule", None), ("schedule", schedule.pk), ("schedule", declared.pk),
        ("queuemetric", metric.pk),
    ):  # fmt: skip
        assert by_name in page(model, pk), (model, pk)


def test_the_dashboard_links_to_it_for_users_who_may_view_channels(
    staff: Callable[..., Client], tenant: Channel
) -> None:
    channel_set(channel="acme", max_concurrency=1)
    enqueue_many(NewMessage(handler="h", channel="acme") for _ in range(3))
    dequeue(limit=1)
    measure(AT_ONCE)
    dashboard = "/admin/pgqueue/dashboard/"
    html = staff("view_dashboard", "view_channel").get(dashboard).text
    assert f'href="{page_of(tenant)}"' in html
    assert f'href="{named("default", "acme")}">Channel default/acme is at its limit' in html
    html = staff("view_dashboard").get(dashboard).text
    assert page_of(tenant) not in html
    assert "/named/" not in html
