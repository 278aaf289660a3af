"""message_created, sent by the Python enqueue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from django_pgqueue import NewMessage, channel_set, enqueue, enqueue_many
from django_pgqueue.signals import message_created

pytestmark = pytest.mark.django_db


@pytest.fixture
def heard() -> Iterator[list[dict[str, Any]]]:
    found: list[dict[str, Any]] = []

    def hear(**arguments: Any) -> None:
        found.append(arguments)

    message_created.connect(hear)
    yield found
    message_created.disconnect(hear)


def test_each_new_message_sends_a_signal(heard):
    one = enqueue("greet", {"n": 1}, channel="default")
    many = enqueue_many([NewMessage(handler="greet", payload={"n": 2}), NewMessage(handler="leave")])
    assert [sent["id"] for sent in heard] == [one.id, *(answer.id for answer in many)]
    assert [sent["message"].handler for sent in heard] == ["greet", "greet", "leave"]
    assert heard[0]["message"].payload == {"n": 1}
    assert {(sent["sender"], sent["using"]) for sent in heard} == {(NewMessage, "default")}


def test_messages_that_were_not_created_send_no_signal(heard):
    channel_set(channel="small", max_size=1, full_policy="drop")
    enqueue("greet", dedupe_key="k", channel="small")
    heard.clear()
    assert enqueue("greet", dedupe_key="k", channel="small").outcome == "duplicate"
    assert enqueue("greet", channel="small").outcome == "dropped"
    assert heard == []


def test_a_receiver_that_raises_does_not_fail_the_enqueue(heard, caplog):
    def broken(**arguments: Any) -> None:
        raise RuntimeError("no")

    message_created.connect(broken)
    try:
        assert enqueue("greet").created
    finally:
        message_created.disconnect(broken)
    assert "Error calling" in caplog.text
