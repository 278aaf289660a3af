from __future__ import annotations

import pytest
from django.test import Client

from django_pgqueue import channel_set, dequeue, enqueue, queue_pause
from django_pgqueue.models import Queue
from tests.admin.conftest import act, address, logged, told


def names(response: object) -> list[str]:
    return [queue.name for queue in response.context["cl"].result_list]


def test_every_queue_that_has_channels_is_listed(admin_client: Client) -> None:
    channel_set(channel="tenant", queue="mail")
    assert names(admin_client.get(address("queue"))) == ["default", "mail"]
    assert names(admin_client.get(address("queue"))) == ["default", "mail"]


def test_pause_asks_for_a_reason_first(admin_client: Client) -> None:
    admin_client.get(address("queue"))
    text = act(admin_client, "queue", "pause", "default").content.decode()
    assert 'name="reason"' in text
    assert "Nothing more of these queues is delivered" in text
    text = act(admin_client, "queue", "pause", "default", confirmed="yes", reason=" ").content.decode()
    assert "This field is required" in text
    assert not Queue.objects.exclude(paused_at=None).exists()
    assert logged() == []


def test_pause_and_resume(admin_client: Client) -> None:
    enqueue("mail.send")
    admin_client.get(address("queue"))
    response = act(admin_client, "queue", "pause", "default", confirmed="yes", reason="the database moves")
    assert told(response) == "1 queue is paused."
    assert dequeue() == []
    assert "the database moves" in admin_client.get(address("queue")).content.decode()
    assert told(act(admin_client, "queue", "resume", "default")) == "1 queue is resumed."
    assert len(dequeue()) == 1
    assert logged() == [("default", "Paused: the database moves", "admin"), ("default", "Resumed.", "admin")]


def test_resume_leaves_queues_alone_that_are_not_paused(admin_client: Client) -> None:
    admin_client.get(address("queue"))
    assert told(act(admin_client, "queue", "resume", "default")) == "0 queues are resumed."
    assert logged() == []


def test_events_are_switched_on_and_a_pause_of_somebody_else_stays(admin_client: Client) -> None:
    queue_pause(reason="incident")
    posted = {"events": "on", "paused_at": "", "pause_reason": "", "name": "other"}
    assert admin_client.post(address("queue", "default"), posted).status_code == 302
    queue = Queue.objects.get()
    assert (queue.name, queue.events, queue.pause_reason) == ("default", True, "incident")
    assert queue.paused_at is not None


@pytest.mark.parametrize("page", ["add/", "default/delete/"])
def test_a_queue_is_neither_added_nor_deleted(admin_client: Client, page: str) -> None:
    admin_client.get(address("queue"))
    assert admin_client.get(f"{address('queue')}{page}").status_code == 403
