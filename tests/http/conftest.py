"""Shared by the tests of the HTTP door: two tenants, and requests with their keys."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from django_pgqueue import channel_set
from django_pgqueue.http.models import Key

ALL = tuple(Key.Verb.values)
Ask = Callable[..., HttpResponse]


@pytest.fixture(autouse=True)
def _door(db: None, settings: Any) -> None:
    settings.ROOT_URLCONF = "tests.http.urls"
    for channel in ("acme", "globex"):
        channel_set(channel=channel)


def make_key(channel: str = "acme", verbs: Iterable[str] = ALL) -> str:
    key = Key(name="shop", channel=channel, verbs=list(verbs), handlers="mail.send\ncrm.push")
    secret = key.renew()
    key.save()
    return secret


@pytest.fixture
def ask() -> Ask:
    """`ask("POST", "messages", {"handler": "mail.send"})`: the answer for a key of acme with all verbs, or another."""
    own = make_key()
    client = Client(enforce_csrf_checks=True)

    def ask(method: str, path: str, body: Any = None, *, key: str | None = own) -> HttpResponse:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        sent = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        return client.generic(method, f"/queue/{path}", sent, "application/json", headers=headers)

    return ask
