"""Encoded content in the admin: a word for most users, and the content for those with the permission."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from django_pgqueue import complete, dead_letter, dequeue, enqueue, retry
from django_pgqueue.models import ArchivedMessage, DeadLetter, Message
from tests.admin.conftest import VIEW, act, address, notices
from tests.support.codecs import SECRET, Toy

DECODED = "view_decrypted_payload"
Staff = Callable[..., Client]


@pytest.fixture(autouse=True)
def toy(settings: Any) -> Toy:
    codec = Toy()
    settings.DJANGO_PGQUEUE = {"PAYLOAD_CODEC": codec}
    said = {"said": SECRET}
    for _ in range(3):
        enqueue("h", said, body=SECRET.encode())
    done, dead, failed = dequeue(limit=3)
    complete(done, results=[said])
    dead_letter(dead, reason="refused", details=said)
    retry(failed, errors=[{"type": "ValueError", "message": SECRET}], states=[said])
    return codec


def pages(client: Client) -> dict[str, str]:
    found = {}
    for name, model in (("message", Message), ("archivedmessage", ArchivedMessage), ("deadletter", DeadLetter)):
        response = client.get(address(name, model.objects.get().pk))
        assert response.status_code == 200
        found[name] = response.content.decode()
    return found


def test_a_user_without_the_permission_sees_that_it_is_encrypted(staff: Staff) -> None:
    for name, text in pages(staff(*VIEW)).items():
        assert SECRET not in text, name
        assert SECRET.encode().hex() not in text, name
        assert "encrypted by toy" in text, name


def test_a_user_with_the_permission_sees_the_content(staff: Staff) -> None:
    found = pages(staff(*VIEW, DECODED))
    assert found["message"].count(SECRET) == 3  # payload, state and error
    assert found["archivedmessage"].count(SECRET) == 2  # payload and result
    assert found["deadletter"].count(SECRET) == 2  # payload and details


def test_without_the_key_the_page_says_so(staff: Staff, toy: Toy) -> None:
    toy.is_down = True
    assert "encrypted: the codec &#x27;toy&#x27; failed with ConnectionError" in pages(staff(*VIEW, DECODED))["message"]


def test_a_payload_is_edited_only_by_those_who_may_see_it(staff: Staff) -> None:
    pk = Message.objects.get().pk
    response = act(staff(*VIEW, "edit_message"), "message", "edit", pk)
    assert "you need the permission to see decrypted payloads" in notices(response)
    form = act(staff(*VIEW, "edit_message", DECODED), "message", "edit", pk).content.decode()
    assert SECRET in form
