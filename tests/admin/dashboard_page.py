"""The dashboard in tests: its address, the parts of its text, and rows that it shows."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any

from django.test import Client
from django.utils import timezone

from django_pgqueue.models import Activity, Worker

ADDRESS = "/admin/pgqueue/dashboard/"
AT_ONCE = timedelta(0)


def look(client: Client, **query: object) -> str:
    response = client.get(ADDRESS, query)
    assert response.status_code == 200, response
    return response.content.decode()


def shown(html: str) -> str:
    """Return the text that a reader sees."""
    words = re.sub(r"<(title|desc)[ >].*?</\1>|<[^>]+>", " ", html.partition('id="pgqueue-part"')[2], flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(words).replace("\N{NO-BREAK SPACE}", " "))


def row(html: str, name: str) -> str:
    """Return the first line of a table that begins with this name; queues come before channels."""
    lines = [shown('id="pgqueue-part"' + line) for line in html.split("<tr>")]
    return next(line for line in lines if re.match(rf"\s*{re.escape(name)} ", line))


def settled(
    name: str | None = None, *, handler: str | None = None, minutes: int, ago: timedelta = AT_ONCE, **figures: Any
) -> None:
    """Write a row of figures, as a measurement does."""
    at = timezone.now().replace(second=0, microsecond=0) - ago
    at -= timedelta(minutes=at.minute % minutes if minutes else 0)
    given = {"completed": 0, "cancelled": 0, "dead": 0, "retries": 0, "waits": [], "runs": []} | figures
    Activity.objects.create(queue="default", channel=name, handler=handler, minutes=minutes, bucket_at=at, **given)


def working(name: str = "w1", **values: Any) -> Worker:
    given = {"hostname": "h", "pid": 1, "queues": ["default"], "concurrency": 8, "version": "1"}
    return Worker.objects.create(name=name, **given | values)


def histogram(place: int, count: int = 1) -> list[int]:
    return [0] * (place - 1) + [count]
