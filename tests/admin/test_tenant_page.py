"""The page of one channel: what it says."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from django_pgqueue import (
    NewMessage,
    channel_pause,
    channel_release,
    channel_set,
    dequeue,
    enqueue,
    enqueue_many,
    limit_pause,
    limit_set,
    measure,
)
from django_pgqueue.models import Channel, DeadLetter, Message
from tests.admin.conftest import address, make_dead
from tests.admin.tenant_page import AT_ONCE, histogram, look, page_of, part, settled, text_of


def test_the_head_says_what_the_channel_is(admin_client: Client, tenant: Channel) -> None:
    Channel.objects.filter(pk=tenant.pk).update(context={"tenant": "acme <b>"})
    shown = look(admin_client, tenant)
    assert shown.count("default/acme") >= 1
    assert "State open" in shown
    assert '"tenant": "acme <b>"' in shown


def test_a_pause_is_shown_with_its_end_its_reason_and_what_it_costs(admin_client: Client, tenant: Channel) -> None:
    enqueue_many(NewMessage(handler="h", channel="acme") for _ in range(3))
    until = datetime(2199, 5, 4, 3, 2, 1, tzinfo=UTC)
    channel_pause(channel="acme", reason="their <server> is down", until=until)
    Channel.objects.filter(pk=tenant.pk).update(paused_at=timezone.now() - timedelta(hours=2))
    html = admin_client.get(page_of(tenant)).content.decode()
    assert "paused for 2 h , until 4 May 2199, 03:02:01. Reason: their <server> is down" in text_of(html).replace(
        "2 h,", "2 h ,"
    )


def test_a_released_channel_has_no_limits(admin_client: Client, tenant: Channel) -> None:
    channel_set(channel="acme", max_concurrency=1)
    enqueue("h", channel="acme")
    channel_release(channel="acme")
    shown = look(admin_client, tenant)
    assert "it takes no new messages, and is removed when it is empty" in shown


def test_limits_have_meters(admin_client: Client, tenant: Channel) -> None:
    channel_set(channel="acme", max_concurrency=2, max_size=5, rate="2/h burst 2")
    enqueue_many(NewMessage(handler="h", channel="acme") for _ in range(5))
    dequeue(limit=5)
    measure(AT_ONCE)
    assert "Limits 2/2 at once 5/5 held 0/2 per hour Created" in look(admin_client, tenant)


def test_live_figures_are_linked(admin_client: Client, tenant: Channel) -> None:
    enqueue_many(NewMessage(handler="h", channel="acme", order_key="invoice-7") for _ in range(5))
    assert len(dequeue(limit=10)) == 1
    enqueue_many(NewMessage(handler="h", channel="acme") for _ in range(3))
    enqueue("h", channel="acme", delay=timedelta(hours=1))
    limit_set("stripe", max_concurrency=1)
    limit_pause("stripe", reason="down")
    enqueue_many(NewMessage(handler="h", channel="acme", limits=["stripe"]) for _ in range(2))
    first = enqueue("h", channel="acme")
    enqueue_many(NewMessage(handler="h", channel="acme", after=[first]) for _ in range(6))
    html = admin_client.get(page_of(tenant)).content.decode()
    for name, count, chosen in (
        ("ready", 4, "status__exact=1"),
        ("leased", 1, "status__exact=2"),
        ("scheduled", 1, "waits_for=time"),
        ("waiting for a limit", 2, "waits_for=limit"),
        ("waiting for their order key", 4, "waits_for=key"),
        ("waiting for others", 6, "waits_for=messages"),
    ):
        query = f"?channel={tenant.pk}&amp;{chosen}"
        assert f'<dt>{name}</dt><dd><a href="{address("message")}{query}">{count}</a></dd>' in html


def test_the_oldest_message_is_found_behind_those_of_a_higher_priority(admin_client: Client, tenant: Channel) -> None:
    now = timezone.now()
    Message.objects.create(channel=tenant, handler="h", priority=5, dequeue_at=now - timedelta(minutes=1))
    oldest = Message.objects.create(channel=tenant, handler="h", priority=-5, dequeue_at=now - timedelta(minutes=50))
    Message.objects.create(channel=tenant, handler="h", priority=-5, dequeue_at=now - timedelta(minutes=40))
    html = admin_client.get(page_of(tenant)).content.decode()
    assert re.search(rf'is-bad"><a href="{address("message", oldest.pk)}">50.min', html)
    dequeue(limit=1)  # Now the lane has a floor.
    assert re.search(rf'<a href="{address("message", oldest.pk)}">50.min', admin_client.get(page_of(tenant)).text)


def test_more_messages_than_are_counted_live_are_taken_from_the_measurement(
    admin_client: Client, tenant: Channel
) -> None:
    enqueue_many(NewMessage(handler="h", channel="acme") for _ in range(1_234))
    connection.cursor().execute("DELETE FROM pgqueue_backlog")
    assert ">1,000+</a>" in admin_client.get(page_of(tenant)).text
    measure(AT_ONCE)
    assert ">1,234</a>" in admin_client.get(page_of(tenant)).text


def test_many_scheduled_messages_of_others_do_not_hide_that_this_channel_has_none(
    admin_client: Client, tenant: Channel
) -> None:
    enqueue_many(NewMessage(handler="h", delay=timedelta(hours=1)) for _ in range(10_001))
    measure(AT_ONCE)
    assert "<dt>scheduled</dt><dd>0</dd>" in admin_client.get(page_of(tenant)).text


def test_old_figures_are_called_old_and_not_used(admin_client: Client, tenant: Channel) -> None:
    enqueue_many(NewMessage(handler="h", channel="acme") for _ in range(1_234))
    measure(AT_ONCE)
    connection.cursor().execute("UPDATE pgqueue_measurement SET measured_at = measured_at - interval '5 minutes'")
    html = admin_client.get(page_of(tenant)).text
    assert "These figures are 5 min old: no worker runs maintenance." in text_of(html)
    assert ">1,000+</a>" in html


def test_the_hour_and_the_day_of_the_channel(admin_client: Client, tenant: Channel) -> None:
    measure(AT_ONCE)
    settled("acme", minutes=10, completed=30, dead=1, retries=4, waits=histogram(21, 31), runs=histogram(11, 31))
    settled("acme", minutes=60, ago=timedelta(hours=3), completed=1_230, cancelled=4, dead=7, retries=9)
    settled("other", minutes=60, ago=timedelta(hours=3), completed=99_999)
    html = admin_client.get(page_of(tenant)).text
    table = part(html, "spans")
    assert "done 30 1,234" in table
    assert "died 0 0" in table
    assert "failed attempts 4 9" in table
    assert re.search(r"waited, p50 \d[\d.]* \w+ – waited, p95 \d[\d.]* \w+ – ran, p50 \d", table)
    assert "Largest: completed 1,230, cancelled 4, dead 7, failed attempts 9." in html
    assert "99,999" not in html


def test_the_newest_dead_letters_come_first_and_lead_to_the_redrive(admin_client: Client, tenant: Channel) -> None:
    letters = make_dead(12, channel="acme", details={"type": "KeyError", "message": "<'currency'>"})
    make_dead(1, reason="of_another_channel")
    DeadLetter.objects.filter(pk=letters[0].pk).update(redriven_at=timezone.now())
    html = admin_client.get(page_of(tenant)).text
    table = html.partition('id="pgqueue-letters">')[2].partition("</table>")[0]
    assert [int(pk) for pk in re.findall(r">#(\d+)</a>", table)] == [letter.pk for letter in letters[:1:-1]]
    assert "refused KeyError: <'currency'>" in text_of(table)
    assert "of_another_channel" not in table
    query = "?queue=default&amp;channel=acme&amp;redriven=no"
    assert f'<a href="{address("deadletter")}{query}">All 11 dead letters</a>' in html
    assert "Open the list to redrive all of them" in html


def test_very_many_dead_letters_are_not_all_read(
    admin_client: Client, tenant: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_pgqueue.admin.tenant.reads.MOST_SEEN_LETTERS", 20)
    letters = make_dead(30, channel="acme")
    html = admin_client.get(page_of(tenant)).text
    assert f">#{letters[-1].pk}</a>" in html
    assert "newer ones may be missing" not in html
    make_dead(25)
    measure(AT_ONCE)
    html = admin_client.get(page_of(tenant)).text
    assert "There are very many, and newer ones may be missing here." in html
    assert "All 30 dead letters" in html


def test_live_leases_are_there(admin_client: Client, tenant: Channel) -> None:
    enqueue_many(NewMessage(handler="mail.send", channel="acme") for _ in range(22))
    taken = dequeue(limit=21, worker="host:1:ab")
    Message.objects.filter(pk=taken[0].id).update(
        leased_at=timezone.now() - timedelta(minutes=5),
        lease_expires_at=timezone.now() - timedelta(seconds=5),
        cancelled_at=timezone.now(),
    )
    Message.objects.filter(pk=taken[7].id).update(leased_at=timezone.now() - timedelta(minutes=9))
    connection.cursor().execute("UPDATE pgqueue_lane SET lease_floor = now() - interval '1 hour'")
    html = admin_client.get(page_of(tenant)).text
    table = part(html, "leases")
    shown = re.findall(r"#(\d+)", table)
    assert len(shown) == 20
    assert shown[0] == str(taken[7].id)
    assert "9 min" in table
    assert re.search(rf"#{taken[0].id} to be cancelled mail\. ?send host: ?1: ?ab 1 / 5 ", table)
    assert "expired, it comes back with the next sweep" in table
    assert "These have been leased longest. All leased messages" in text_of(html)
