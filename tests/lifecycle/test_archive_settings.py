"""The choice of what is archived is set for a queue and for a channel; what is no choice is refused."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from django_pgqueue import Complete, channel_set, complete, dequeue, pop, queue_set
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.models import Channel, Queue
from tests.lifecycle.test_archive import send
from tests.support.cases import cases
from tests.support.messages import places
from tests.support.refusals import refused
from tests.support.sql import sql

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("archive", ["", "Full", "payload", 5])
def test_an_unknown_archive_setting_is_refused(archive: Any) -> None:
    sent = send()
    [delivery] = dequeue()
    for call in (lambda: complete(delivery, archive=archive), lambda: pop(archive=archive)):
        with pytest.raises(InvalidMessage, match="it takes full, outcome or none"), transaction.atomic():
            call()
    with refused(InvalidMessage):
        channel_set(channel="default", archive=archive)
    with refused(InvalidMessage):
        queue_set(archive=archive)
    with pytest.raises(ValueError, match="it takes full, outcome or none"):
        Complete(archive=archive)
    assert places(sent) == ["live"]


def test_a_queue_is_set_as_far_as_it_is_said() -> None:
    queue_set(archive="none")
    queue_set(events=True)
    queue_set()
    assert Queue.objects.values_list("name", "archive", "events").get() == ("default", "none", True)
    sql("SELECT pgqueue_queue_set('default', '{\"archive\": null, \"events\": null}')")
    assert Queue.objects.values_list("archive", "events").get() == ("full", False)


@cases("settings", ["[]", "null", '{"paused": true}', '{"events": 1}', '{"events": "yes"}', '{"archive": 7}'])
def test_settings_that_cannot_be_are_refused(settings: str) -> None:
    [(outcome, refusal)] = sql("SELECT outcome, refusal ->> 'message' FROM pgqueue_queue_set('default', %s)", settings)
    assert outcome == "invalid"
    assert refusal.startswith("invalid queue: ")
    assert not Queue.objects.exists()


def test_a_channel_goes_back_to_what_its_queue_says() -> None:
    channel_set(channel="default", archive="none")
    channel_set(channel="default", weight=2)
    assert Channel.objects.get().archive == "none"
    channel_set(channel="default", archive=None)
    assert Channel.objects.get().archive is None
