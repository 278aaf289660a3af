from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client

from django_pgqueue import channel_set, dequeue, enqueue, queue_drop, queue_pause
from django_pgqueue.models import ArchivedMessage, Channel, Message, Queue
from tests.admin.conftest import act, address, logged, notices
from tests.support.cases import cases

REQUIRED = {"archive": "full", "release_burst": 1, "fairness": "turns"}


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
    assert "No more messages of these queues are delivered" in text
    text = act(admin_client, "queue", "pause", "default", confirmed="yes", reason=" ").content.decode()
    assert "This field is required" in text
    assert not Queue.objects.exclude(paused_at=None).exists()
    assert logged() == []


def test_pause_and_resume(admin_client: Client) -> None:
    enqueue("mail.send")
    admin_client.get(address("queue"))
    response = act(admin_client, "queue", "pause", "default", confirmed="yes", reason="the database moves")
    assert notices(response) == "1 queue is paused."
    assert dequeue() == []
    assert "the database moves" in admin_client.get(address("queue")).content.decode()
    assert notices(act(admin_client, "queue", "resume", "default")) == "1 queue is resumed."
    assert len(dequeue()) == 1
    assert logged() == [("default", "Paused: the database moves", "admin"), ("default", "Resumed.", "admin")]


def test_resume_leaves_queues_alone_that_are_not_paused(admin_client: Client) -> None:
    admin_client.get(address("queue"))
    assert notices(act(admin_client, "queue", "resume", "default")) == "0 queues are resumed."
    assert logged() == []


def test_events_are_switched_on_and_a_pause_of_another_user_stays(admin_client: Client) -> None:
    queue_pause(reason="incident")
    posted = REQUIRED | {"events": "on", "paused_at": "", "pause_reason": "", "name": "other"}
    assert admin_client.post(address("queue", "default"), posted).status_code == 302
    queue = Queue.objects.get()
    assert (queue.name, queue.events, queue.pause_reason) == ("default", True, "incident")
    assert queue.paused_at is not None


LIMITS = {
    "archive": "full", "max_concurrency": "20", "release_interval": "00:00:02", "release_burst": "50",
    "fairness": "share", "max_share": "0.75",
}  # fmt: skip


def test_limits_of_a_queue_are_edited_and_listed(admin_client: Client) -> None:
    admin_client.get(address("queue"))
    changed_at = Queue.objects.get().changed_at
    assert admin_client.post(address("queue", "default"), LIMITS).status_code == 302
    queue = Queue.objects.get()
    assert (queue.max_concurrency, queue.release_burst, queue.fairness) == (20, 50, "share")
    assert queue.changed_at > changed_at
    text = admin_client.get(address("queue")).content.decode()
    assert "20 at once, 1 per 2\N{NO-BREAK SPACE}s, burst 50, by share of the leases, at most 0.75 for one" in text


@cases(
    "wrong",
    [
        {"max_concurrency": "0"},
        {"release_interval": "0"},
        {"release_burst": "0"},
        {"max_share": "0"},
        {"max_share": "2"},
    ],
)
def test_a_limit_that_cannot_be_is_refused_in_the_form(admin_client: Client, wrong: dict[str, str]) -> None:
    admin_client.get(address("queue"))
    response = admin_client.post(address("queue", "default"), LIMITS | wrong)
    assert response.status_code == 200
    assert list(response.context["adminform"].form.errors) == list(wrong)
    assert Queue.objects.get().max_concurrency is None


@pytest.mark.parametrize("page", ["add/", "default/delete/"])
def test_a_queue_is_neither_added_nor_deleted(admin_client: Client, page: str) -> None:
    admin_client.get(address("queue"))
    assert admin_client.get(f"{address('queue')}{page}").status_code == 403


@pytest.fixture
def mail(admin_client: Client) -> None:
    """A queue of two channels and three messages."""
    for name in "ab":
        channel_set(channel=name, queue="mail")
        enqueue("mail.send", channel=name, queue="mail")
    enqueue("mail.send", channel="a", queue="mail", delay=timedelta(hours=1))
    admin_client.get(address("queue"))


@pytest.mark.usefixtures("mail")
def test_purge_moves_what_waits_in_all_channels_to_the_archive(admin_client: Client) -> None:
    enqueue("mail.send")
    [leased] = dequeue(queue="mail", limit=1)
    text = act(admin_client, "queue", "purge", "mail").content.decode()
    assert "2 wait" in text
    assert Message.objects.count() == 4
    response = act(admin_client, "queue", "purge", "mail", confirmed="yes")
    assert notices(response) == "2 messages are purged."
    assert set(ArchivedMessage.objects.values_list("queue", "outcome")) == {("mail", "purged")}
    assert set(Message.objects.filter(channel__queue="mail").values_list("pk", flat=True)) == {leased.id}
    assert logged() == [("mail", "Purged 2 messages.", "admin")]


@pytest.mark.usefixtures("mail")
def test_drop_asks_whether_to_purge(admin_client: Client) -> None:
    text = act(admin_client, "queue", "drop", "mail").content.decode()
    assert 'name="purge"' in text
    assert "3 wait" in text
    assert "messages wait" in notices(act(admin_client, "queue", "drop", "mail", confirmed="yes"))
    assert Channel.objects.filter(queue="mail", released_at=None).count() == 2
    response = act(admin_client, "queue", "drop", "mail", confirmed="yes", purge="on")
    assert notices(response) == "1 queue is dropped."
    assert not Channel.objects.filter(queue="mail", released_at=None).exists()
    assert ArchivedMessage.objects.filter(outcome="purged").count() == 3
    text = "3 messages purged, 2 channels released, 0 schedules deleted."
    assert logged() == [("mail", text, "admin")]


@pytest.mark.usefixtures("mail")
def test_a_queue_whose_messages_are_leased_is_not_dropped(admin_client: Client) -> None:
    dequeue(queue="mail")
    assert "leases" in notices(act(admin_client, "queue", "drop", "mail", confirmed="yes", purge="on"))
    assert Message.objects.count() == 3
    assert logged() == []


def test_the_archive_setting_of_a_queue_is_chosen_and_shown(admin_client: Client) -> None:
    admin_client.get(address("queue"))
    posted = REQUIRED | {"archive": "outcome"}
    assert admin_client.post(address("queue", "default"), posted).status_code == 302
    assert Queue.objects.get().archive == "outcome"
    assert "the outcome, no payload" in admin_client.get(address("queue")).content.decode()
    assert admin_client.post(address("queue", "default"), REQUIRED | {"archive": "some"}).status_code == 200
    assert Queue.objects.get().archive == "outcome"


def test_a_queue_that_was_dropped_does_not_come_back(admin_client: Client) -> None:
    channel_set(channel="c", queue="q")
    admin_client.get(address("queue"))
    queue_drop(queue="q")
    admin_client.get(address("queue"))
    assert not Queue.objects.filter(name="q").exists()
