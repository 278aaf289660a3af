"""The admin shows messages that wait for their order key, and what they wait for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client

from django_pgqueue import Delivery, channel_set, complete, dequeue, enqueue, measure
from django_pgqueue.models import Channel
from tests.admin.conftest import address
from tests.admin.tenant_page import text_of
from tests.support.sql import sql

Pages = Callable[..., str]
KEY = "invoice-7"


@pytest.fixture
def held() -> Delivery:
    """Three messages of one key, the first one leased."""
    channel_set(channel="acme")
    for _ in range(3):
        enqueue("h", channel="acme", order_key=KEY)
    [held] = dequeue(limit=10)
    return held


def test_the_page_of_a_message_shows_its_key_and_the_message_that_it_waits_for(page: Pages, held: Delivery) -> None:
    html = page("message", held.id + 2)
    shown = text_of(html)
    assert "waits for its order key" in shown
    assert f"Waits for message {held.id} of its order key Order key {KEY}" in shown
    assert "one after the other, in order." in shown
    assert f"It waits for message {held.id} of the order key {KEY}, which is leased." in shown
    assert address("message", held.id) in html
    assert "Waits for" not in text_of(page("message", held.id))


def test_the_page_of_a_message_whose_predecessor_was_deleted_by_hand_says_so(page: Pages, held: Delivery) -> None:
    sql("DELETE FROM pgqueue_message WHERE id = %s", held.id)
    shown = text_of(page("message", held.id + 1))
    assert "order key unreleased" in shown
    assert "pgqueue_repair() makes it ready" in shown


def test_the_archive_shows_the_key(page: Pages, held: Delivery) -> None:
    complete(held)
    assert f"Order key {KEY}" in text_of(page("archivedmessage", held.id))


def test_the_list_of_messages_is_filtered_by_what_they_wait_for(admin_client: Client, held: Delivery) -> None:
    later = enqueue("h", channel="acme", delay=timedelta(hours=1)).id
    for chosen, wanted in (("key", {held.id + 1, held.id + 2}), ("time", {later}), ("limit", set())):
        response = admin_client.get(address("message"), {"waits_for": chosen})
        assert {message.pk for message in response.context["cl"].result_list} == wanted


def test_a_message_is_found_by_its_key(admin_client: Client, held: Delivery) -> None:
    enqueue("h", channel="acme", order_key="invoice-8")
    response = admin_client.get(address("message"), {"q": KEY})
    assert len(response.context["cl"].result_list) == 3


def test_lists_and_dashboard_count_them_and_link_to_them(admin_client: Client, page: Pages, held: Delivery) -> None:
    channel = Channel.objects.get(name="acme")
    link = f"{address('message')}?channel={channel.pk}&amp;waits_for=key"
    assert f'<a href="{link}">2</a>' in page("channel")
    counts = "1 leased, 0 scheduled, 0 waiting for a limit, 2 waiting for their order key, 0 waiting for others"
    assert counts in page("channel", channel.pk)
    measure(timedelta(0))
    html = admin_client.get(address("dashboard")).content.decode()
    assert f'{link}">2</a>' in html
    assert f'{address("message")}?queue=default&amp;waits_for=key">2</a>' in html
