from __future__ import annotations

from datetime import UTC, datetime

import pytest

from django_pgqueue import Delivery, channel_set, dequeue, enqueue, handler, handler_pause, handler_resume
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.models import Message, SharedLimit
from tests.support.refusals import refused

pytestmark = pytest.mark.django_db


def test_its_messages_of_every_channel_wait_and_those_of_others_go_on():
    channel_set(channel="other")
    held = [enqueue("mail", channel=name).id for name in ("default", "other", "default")]
    handler_pause("mail", reason="the provider is down")
    held.append(enqueue("mail").id)
    free = enqueue("h").id
    assert [delivery.id for delivery in dequeue(limit=10)] == [free]
    assert set(Message.objects.filter(handler="mail").values_list("attempts", flat=True)) == {0}
    assert SharedLimit.objects.get().pause_reason == "the provider is down"

    handler_resume("mail")

    found = [delivery.id for _ in range(3) for delivery in dequeue(limit=10)]
    assert sorted(found) == held


def test_a_decorated_function_stands_for_its_name(handlers_restored: None):
    @handler("mail.send")
    def send(delivery: Delivery) -> None: ...

    send.enqueue()
    handler_pause(send)
    assert dequeue() == []
    handler_resume(send)
    assert len(dequeue()) == 1


def test_invalid_arguments_are_refused():
    for verb in (handler_pause, handler_resume):
        with refused(InvalidMessage, "neither a name nor a function"):
            verb(5)  # type: ignore[operator]
    with refused(InvalidMessage, "not registered"):
        handler_pause(print)  # type: ignore[arg-type]
    with refused(InvalidMessage, "reason is not a str"):
        handler_pause("mail", reason=5)  # type: ignore[arg-type]
    with refused(InvalidMessage, "until"):
        handler_pause("mail", until=datetime(2020, 1, 1, tzinfo=UTC))
    assert not SharedLimit.objects.exists()
