"""The page of one channel in tests: its address, and the parts of its text."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any

from django.test import Client
from django.urls import reverse
from django.utils import timezone

from django_pgqueue.models import Activity, Channel

AT_ONCE = timedelta(0)
VIEW_ALL = ("view_channel", "view_message", "view_deadletter", "view_archivedmessage", "view_worker", "view_queue")


def page_of(channel: Channel | int) -> str:
    return reverse("admin:pgqueue_channel_tenant", args=[channel if isinstance(channel, int) else channel.pk])


def named(queue: str, channel: str) -> str:
    """Return the address that the lists link to, as it stands in HTML."""
    return f"{reverse('admin:pgqueue_channel_named')}?queue={queue}&amp;channel={channel}"


def text_of(html: str) -> str:
    """The text that a reader sees."""
    words = re.sub(r"<(title|desc)[ >].*?</\1>|<[^>]+>", " ", html, flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(words).replace("\N{NO-BREAK SPACE}", " "))


def look(client: Client, channel: Channel) -> str:
    response = client.get(page_of(channel))
    assert response.status_code == 200, response
    return text_of(response.content.decode().partition('id="content"')[2])


def part(html: str, name: str) -> str:
    """The text of one table."""
    return text_of(html.partition(f'id="pgqueue-{name}">')[2].partition("</table>")[0])


def settled(name: str, *, minutes: int, ago: timedelta = AT_ONCE, **figures: Any) -> None:
    """As if it had been measured."""
    at = timezone.now().replace(second=0, microsecond=0) - ago
    at -= timedelta(minutes=at.minute % minutes)
    given = {"completed": 0, "cancelled": 0, "dead": 0, "retries": 0, "waits": [], "runs": []} | figures
    Activity.objects.create(queue="default", channel=name, minutes=minutes, bucket_at=at, **given)


def histogram(place: int, count: int = 1) -> list[int]:
    return [0] * (place - 1) + [count]
