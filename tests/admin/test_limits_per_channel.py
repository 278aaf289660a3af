"""The pages of a limit that is one for each channel: the list has the limit alone, its channels are behind it."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape

import pytest
from django.test import Client

from django_pgqueue import channel_set, dequeue, enqueue, limit_set
from django_pgqueue.models import Channel, Message, SharedLimit
from tests.admin.conftest import act, address
from tests.admin.tenant_page import look

Pages = Callable[..., str]


@pytest.fixture
def limit(db: None) -> int:
    """A limit of one for each of three channels, each with a message that runs and two that wait."""
    number = limit_set("mails", max_concurrency=1, per="channel")
    for name in ("a", "b", "c"):
        channel_set(channel=name)
        for _ in range(3):
            enqueue("h", channel=name, limits=["mails"])
    assert len([lease for _ in range(3) for lease in dequeue(limit=10)]) == 3
    for _ in range(3):
        assert dequeue(limit=10) == []
    return number


def row_of(name: str) -> SharedLimit:
    return SharedLimit.objects.get(channel_id=Channel.objects.get(name=name).pk)


def words(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def test_the_list_has_the_limit_and_not_its_channels(page: Pages, limit: int) -> None:
    html = page("sharedlimit")
    assert "mails open 1 for each channel - - 6 -" in words(html)
    assert "mails, default/a" not in html
    assert f"?waits_for={limit}" in html
    assert "6 messages" in words(page("message", waits_for=limit))


def test_its_channels_are_a_filter_and_a_link_away(page: Pages, limit: int) -> None:
    assert f"?of={limit}" in page("sharedlimit", limit)
    text = words(page("sharedlimit", of=limit))
    for name in ("a", "b", "c"):
        assert f"mails, default/{name} 1 - - 2 -" in text.replace("open ", "")


def test_the_row_of_a_channel_is_only_looked_at(admin_client: Client, page: Pages, limit: int) -> None:
    row = row_of("b")
    shown = page("sharedlimit", row.pk)
    assert "mails, default/b" in shown
    assert address("sharedlimit", limit) in shown
    assert 'name="max_concurrency"' not in shown
    assert "deletelink" not in shown
    act(admin_client, "sharedlimit", "pause", row.pk, confirmed="yes")
    assert SharedLimit.objects.get(pk=row.pk).paused_at is None


def test_the_pages_of_a_message_and_of_its_channel_name_it(admin_client: Client, page: Pages, limit: int) -> None:
    waiting = Message.objects.filter(waits_for=row_of("b").pk).first()
    assert waiting is not None
    assert "mails, default/b" in page("message", waiting.pk)
    assert " mails" in look(admin_client, Channel.objects.get(name="b"))


def test_it_is_made_and_edited_in_the_form(admin_client: Client, limit: int) -> None:
    blank = {"max_cost": "", "release_interval": "", "release_burst": "1", "handlers": ""}
    admin_client.post(
        address("sharedlimit", limit), {"name": "mails", **blank, "max_concurrency": "2", "per": "channel"}
    )
    assert (SharedLimit.objects.get(pk=limit).max_concurrency, SharedLimit.objects.get(pk=limit).per) == (2, "channel")
    admin_client.post(address("sharedlimit", limit), {"name": "mails", **blank, "max_concurrency": "2", "per": ""})
    assert SharedLimit.objects.get(pk=limit).per is None
    assert not SharedLimit.objects.filter(parent_id=limit).exists()
