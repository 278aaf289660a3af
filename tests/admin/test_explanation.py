"""Why is it not running? On the pages of a message and of a channel."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_pgqueue import (
    NewMessage,
    channel_pause,
    channel_set,
    dequeue,
    enqueue,
    enqueue_many,
    explain_message,
    limit_set,
    retry,
)
from django_pgqueue.admin import explanation
from django_pgqueue.models import Channel, Message
from django_pgqueue.sql import files
from tests.admin.conftest import address

Pages = Callable[..., str]


def test_the_page_of_a_message_says_what_holds_it_up(page: Pages) -> None:
    channel_set(channel="default", max_concurrency=1)
    pk = [enqueue("mail.send").id for _ in range(3)][2]
    dequeue(worker="host-7")
    text = page("message", pk)
    assert "Why is it not running?" in text
    assert "1 of 1 messages are leased, held by host-7 (1)." in text
    assert "No worker serves queue default." in text
    assert "Messages of its channel that go before it: 1." in text


def test_the_page_of_a_channel_says_what_holds_it_up(page: Pages) -> None:
    channel_pause(channel="default", reason="their <server> is down")
    text = page("channel", Channel.objects.get().pk)
    assert "Reason: their &lt;server&gt; is down" in text
    assert "Nothing of it is ready." in text


def test_a_reason_links_to_the_limit_and_to_the_channel_that_holds_it(page: Pages) -> None:
    limit_set("stripe", max_concurrency=1)
    for name in ("noisy", "acme"):
        channel_set(channel=name)
        enqueue("charge", channel=name, limits=["stripe"])
        assert len(dequeue()) == (name == "noisy")
    text = page("channel", Channel.objects.get(name="acme").pk)
    assert "1 of 1 places are taken, held by default/noisy (1)." in text
    assert '<a href="/admin/pgqueue/sharedlimit/?q=stripe">stripe</a>' in text
    assert 'href="/admin/pgqueue/channel/named/?queue=default&amp;channel=noisy">default/noisy</a>' in text


def test_a_reason_links_to_the_message_that_holds_an_ordered_channel(page: Pages) -> None:
    channel_set(channel="default", ordered=True)
    held, _ = enqueue("h").id, enqueue("h")
    retry(dequeue(), errors=[{"type": "E", "message": "secret"}], delays=[timedelta(hours=1)])
    text = page("channel", Channel.objects.get().pk)
    assert f'<a href="/admin/pgqueue/message/{held}/change/">Message {held}</a>' in text


def test_a_channel_is_explained_to_users_who_may_only_look(viewer: Client) -> None:
    assert "No worker serves" in viewer.get(address("channel", Channel.objects.get().pk)).content.decode()


def test_a_channel_that_is_new_has_nothing_to_explain(admin_client: Client) -> None:
    assert "Why is it not running?" not in admin_client.get(f"{address('channel')}add/").content.decode()


def queries(client: Client, model: str, pk: int) -> int:
    with CaptureQueriesContext(connection) as captured:
        assert client.get(address(model, pk)).status_code == 200
    return len(captured)


@pytest.mark.parametrize("model", ["message", "channel"])
def test_a_page_asks_no_more_when_there_is_more(admin_client: Client, model: str) -> None:
    enqueue("mail.send")
    first = {"message": Message, "channel": Channel}[model].objects.earliest("pk").pk
    # The first page of a process asks for content types, which are kept.
    queries(admin_client, model, first)
    few = queries(admin_client, model, first)
    for n in range(20):
        channel_set(channel=f"c{n}", max_concurrency=1)
    enqueue_many(NewMessage(handler="mail.send", channel=f"c{n % 20}") for n in range(400))
    dequeue(limit=50)
    last = {"message": Message, "channel": Channel}[model].objects.latest("pk").pk
    assert queries(admin_client, model, last) == few <= 10


def test_every_code_that_is_coloured_exists() -> None:
    bodies = "".join(files.function_body(name, version) for name, version in files.latest_functions().items())
    outcomes = {"completed", "popped"}
    for code in explanation.BAD | explanation.GOOD | explanation.INFORMATION:
        assert f"'{code}'" in bodies or code in outcomes, code
    assert explanation.badge_kind(explain_message(123456789)[0].code) == "bad"
    assert explanation.badge_kind("rate") == "late"
