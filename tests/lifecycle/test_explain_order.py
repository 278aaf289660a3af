"""Explain names the message that holds an ordered channel, until when, why, and how many wait behind it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgqueue import Delivery, channel_set, complete, dequeue, enqueue, explain_channel, explain_message, retry
from django_pgqueue.lifecycle.figures import Reason
from tests.support.messages import enqueue_numbered
from tests.support.moments import pass_time

pytestmark = pytest.mark.django_db


def lease_first_of_three() -> Delivery:
    channel_set(channel="default", ordered=True)
    enqueue_numbered(3)
    [delivery] = dequeue(limit=10)
    return delivery


def reason(delivery: Delivery) -> Reason:
    """Return the reason, which is the same for the message, for those behind it, and for the channel."""
    [of_channel] = [reason for reason in explain_channel(channel="default") if reason.code == "ordered"]
    [of_message] = [reason for reason in explain_message(delivery.id) if reason.code == "ordered"]
    [of_next] = [reason for reason in explain_message(delivery.id + 1) if reason.code == "ordered"]
    assert of_channel == of_message == of_next
    return of_channel


def test_the_reason_names_a_failure() -> None:
    delivery = lease_first_of_three()
    retry(delivery, errors=[{"type": "E"}], delays=[timedelta(hours=1)])
    told = reason(delivery)
    assert told.sentence.startswith(f"Channel default is ordered, and message {delivery.id} holds it until 2")
    assert told.sentence.endswith(", because its attempt 1 failed with E. Messages that wait behind it: 2.")
    assert {name: told.facts[name] for name in ("message", "attempt", "failed", "behind")} == {
        "message": delivery.id, "attempt": 1, "failed": True, "behind": 2,
    }  # fmt: skip


def test_the_reason_is_gone_when_the_time_has_come() -> None:
    delivery = lease_first_of_three()
    retry(delivery, errors=[{}], delays=[timedelta(hours=1)])
    pass_time(hours=1, seconds=1)
    assert "ordered" not in [reason.code for reason in explain_channel(channel="default")]
    complete(dequeue(limit=10))
    enqueue("h")
    assert "ordered" not in [reason.code for reason in explain_channel(channel="default")]
