"""The page of an ordered channel says which message holds it."""

from __future__ import annotations

from datetime import timedelta

from django.test import Client

from django_pgqueue import NewMessage, channel_set, dequeue, enqueue_many, handler_pause, retry
from django_pgqueue.models import Channel
from tests.admin.conftest import act, address
from tests.admin.tenant_page import page_of


def test_the_order_says_what_it_holds_up(admin_client: Client, tenant: Channel) -> None:
    channel_set(channel="acme", ordered=True, on_dead="pause")
    enqueue_many(NewMessage(handler="h", channel="acme") for _ in range(3))
    [delivery] = dequeue(limit=5)
    retry(delivery, errors=[{}], delays=[timedelta(minutes=10)])
    assert f"message {delivery.id} holds it until" in admin_client.get(page_of(tenant)).text


def test_the_order_says_that_its_message_waits_for_a_limit(admin_client: Client, tenant: Channel) -> None:
    channel_set(channel="acme", ordered=True)
    handler_pause("h", reason="the service is down")
    first, *_ = enqueue_many(NewMessage(handler="h", channel="acme") for _ in range(3))
    assert not dequeue(limit=5)
    page = admin_client.get(page_of(tenant)).text
    assert f"message {first.id} holds it, because it waits for the handler h" in page


def test_a_held_message_says_until_when(admin_client: Client, tenant: Channel) -> None:
    channel_set(channel="acme", ordered=True)
    enqueue_many(NewMessage(handler="h", channel="acme") for _ in range(2))
    [delivery] = dequeue(limit=5)
    retry(delivery, errors=[{}], delays=[timedelta(minutes=10)])
    page = admin_client.get(address("message", delivery.id)).text
    assert "Held until" in page
    assert f"message {delivery.id} holds it until" in page
    assert "Retry now" in page
    assert act(admin_client, "message", "retry_now", delivery.id, confirmed="yes").status_code == 302
    assert dequeue(limit=5)[0].id == delivery.id
