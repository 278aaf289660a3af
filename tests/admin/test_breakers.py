"""Breakers among the shared limits of the admin."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from html import unescape

import pytest
from django.test import Client

from django_pgqueue import Breaker, breaker_open, breaker_set, channel_set, dequeue, enqueue, limit_set
from django_pgqueue.models import Channel, SharedLimit
from tests.admin.conftest import act, address, notices
from tests.admin.dashboard_page import look, shown

Pages = Callable[..., str]


def words(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


@pytest.fixture(autouse=True)
def _breaker() -> None:
    channel_set(channel="default")
    breaker_set("mail", Breaker(pause=timedelta(hours=1)))


def test_the_list_shows_the_state_and_what_waits(page: Pages) -> None:
    assert "breaker of mail closed" in words(page("sharedlimit"))
    breaker_open("mail")
    enqueue("mail")
    assert dequeue() == []
    assert re.search(r"breaker of mail breaker open until .+? 1 ", words(page("sharedlimit")))


def test_a_breaker_is_closed_and_opened_by_its_buttons(admin_client: Client, page: Pages) -> None:
    breaker_open("mail")
    pk = SharedLimit.objects.get().pk
    shown = page("sharedlimit", pk)
    assert "opens after 5 failures in a row within 1" in words(shown)
    assert "Close the breaker" in shown
    assert "Pause" not in words(shown)

    admin_client.post(address("sharedlimit", pk), {"action": "close_breaker"})

    assert SharedLimit.objects.get().open_until is None
    admin_client.post(address("sharedlimit", pk), {"action": "open_breaker"})
    assert SharedLimit.objects.get().open_until is not None


def test_the_action_of_the_list_takes_breakers_alone(admin_client: Client) -> None:
    limit_set("stripe", max_concurrency=2)
    response = act(admin_client, "sharedlimit", "open_breaker", *SharedLimit.objects.values_list("pk", flat=True))
    assert notices(response) == "1 breaker is open."


def test_the_dashboard_says_that_a_breaker_is_open(admin_client: Client) -> None:
    assert "breaker" not in shown(look(admin_client))
    breaker_open("mail")
    enqueue("mail")
    assert dequeue() == []
    text = shown(look(admin_client))
    assert re.search(r"The breaker of mail has been open for .+?; messages that wait for it: 1\.", text)
    assert "other breaker" not in text
    breaker_set("sms", Breaker())
    breaker_open("sms")
    assert "So is 1 other breaker." in shown(look(admin_client))


def test_the_page_of_a_tenant_says_that_a_breaker_is_open(page: Pages) -> None:
    breaker_set("mail", Breaker(per="channel", pause=timedelta(hours=1)))
    breaker_open("mail", channel="default")
    enqueue("mail")
    assert dequeue() == []

    assert "The breaker of handler mail is open until" in page("channel", Channel.objects.get().pk)
