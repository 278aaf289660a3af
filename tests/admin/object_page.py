"""The page of one object, as a browser sees it: its buttons, and a click on one of them."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from django.http import HttpResponse
from django.test import Client

from django_pgqueue.models import Channel, Queue, SharedLimit, Worker
from tests.admin.conftest import address

# These are paused in `one_of_each`, and resumed first.
PAUSED = {"channel": Channel, "queue": Queue, "sharedlimit": SharedLimit, "worker": Worker}


class Buttons(HTMLParser):
    """Texts of the buttons by the action that they name."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self.name: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "button" and given.get("form") == "pgqueue-actions":
            assert given["name"] == "action"
            self.name = given["value"]

    def handle_data(self, data: str) -> None:
        if self.name:
            self.found[self.name] = data
            self.name = None


def buttons(client: Client, model: str, pk: int) -> dict[str, str]:
    response = client.get(address(model, pk))
    assert response.status_code == 200
    page = response.content.decode()
    found = Buttons(page).found
    assert ('<form id="pgqueue-actions" method="post">' in page) == bool(found)
    return found


def press(client: Client, model: str, pk: int, action: str, query: str = "", **data: Any) -> HttpResponse:
    return client.post(address(model, pk) + query, {"action": action, **data})


def reset(model: str) -> None:
    """A pause is tried on what is not paused."""
    if model in PAUSED:
        PAUSED[model].objects.update(paused_at=None, pause_reason="")
