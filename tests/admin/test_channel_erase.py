"""Erase a channel in the admin."""

from __future__ import annotations

import pytest
from django.test import Client

from django_pgqueue import channel_set, complete, dequeue, enqueue
from django_pgqueue.admin import channel_erase
from django_pgqueue.models import ArchivedMessage, Channel, Message
from tests.admin.conftest import act, logged, notices

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def acme() -> int:
    channel_set(channel="acme")
    enqueue("h", channel="acme")
    complete(dequeue())
    enqueue("h", channel="acme")
    return Channel.objects.get(name="acme").pk


def test_the_page_before_shows_the_dry_run(admin_client: Client, acme: int) -> None:
    text = act(admin_client, "channel", "erase", acme).content.decode()
    assert "1 archived_message, 1 channel, 1 message" in text
    assert 'name="force"' in text
    assert Message.objects.count() == 1
    response = act(admin_client, "channel", "erase", acme, confirmed="yes")
    assert notices(response) == "Erased: 1 archived_message, 1 channel, 1 message."
    assert not Channel.objects.filter(pk=acme).exists()
    assert not ArchivedMessage.objects.exists()
    assert logged() == [(f"#{acme}", "Erased: 1 archived_message, 1 channel, 1 message.", "admin")]


def test_messages_under_lease_stay_unless_they_are_chosen(admin_client: Client, acme: int) -> None:
    dequeue()
    assert "Not erased yet: 1 channel, 1 message." in notices(
        act(admin_client, "channel", "erase", acme, confirmed="yes")
    )
    assert Message.objects.count() == 1
    response = act(admin_client, "channel", "erase", acme, confirmed="yes", force="on")
    assert notices(response) == "Erased: 1 channel, 1 message."
    assert not Message.objects.exists()


def test_channels_are_erased_one_by_one(admin_client: Client, acme: int) -> None:
    other = Channel.objects.get(name="default").pk
    assert "Select one channel" in notices(act(admin_client, "channel", "erase", acme, other, confirmed="yes"))
    assert Message.objects.count() == 1


def test_a_large_archive_is_left_to_the_command(
    admin_client: Client, acme: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_erase, "MOST_BYTES", 1)
    assert "run manage.py pgqueue erase channel" in notices(
        act(admin_client, "channel", "erase", acme, confirmed="yes")
    )
    assert Message.objects.count() == 1
