from __future__ import annotations

from datetime import timedelta

from django_pgqueue import cancel, channel_pause, channel_set, dequeue, enqueue, queue_pause, queue_resume, retry
from django_pgqueue.models import Worker
from tests.doctor.conftest import Examine
from tests.support.moments import pass_time


def worker(*queues: str) -> None:
    Worker.objects.create(name="w", hostname="h", pid=1, queues=list(queues), concurrency=1, version="0")


def test_a_queue_that_no_worker_serves(found: Examine) -> None:
    channel_set(channel="default", queue="mails")
    enqueue("h", queue="mails")
    worker("default")
    finding = found("waiting")["no_worker"]
    assert (finding.severity.word, finding.facts) == ("critical", {"queue": "mails"})
    Worker.objects.update(queues=["default", "mails"])
    assert found("waiting") == {}


def test_a_client_that_takes_messages_without_being_a_worker_serves_the_queue(found: Examine) -> None:
    enqueue("h")
    enqueue("h")
    dequeue()
    assert found("waiting") == {}


def test_leases_of_a_worker_that_died_do_not_hide_that_no_worker_serves_the_queue(found: Examine) -> None:
    enqueue("h")
    enqueue("h")
    dequeue(lease=timedelta(seconds=30))
    assert found("waiting") == {}
    pass_time(seconds=31)
    assert found("waiting")["no_worker"].facts == {"queue": "default"}


def test_channels_that_wait_for_long(found: Examine) -> None:
    worker("default")
    for name in ("a", "b"):
        channel_set(channel=name)
        enqueue("h", channel=name)
        pass_time(minutes=1)
    enqueue("h")
    finding = found("waiting")["waiting"]
    assert finding.facts["channels"] == 2
    assert [row["channel"] for row in finding.facts["shown"]] == ["a", "b"]
    assert 120 <= finding.facts["shown"][0]["seconds"] < 180
    assert finding.facts["complete"]
    assert found("waiting", waiting=timedelta(hours=1)) == {}
    dequeue(limit=10)
    assert found("waiting") == {}


def test_a_pause_without_an_end_is_a_warning_because_it_may_be_forgotten(found: Examine) -> None:
    worker("default")
    channel_set(channel="tenant")
    enqueue("h", channel="tenant")
    pass_time(minutes=5)
    channel_pause(channel="tenant", reason="the provider is down")
    finding = found("waiting")["paused"]
    assert (finding.severity.word, finding.facts["paused"]) == ("warning", "channel")
    assert finding.problem == (
        "1 channel(s) of the queue default are paused and have messages, the longest for 5 min: tenant."
    )
    assert finding.action.endswith("manage.py pgqueue resume channel NAME --queue default.")
    enqueue("h")
    pass_time(minutes=5)
    queue_pause("default")
    finding = found("waiting")["paused"]
    assert (finding.facts["channels"], finding.facts["paused"]) == (2, "queue")
    assert finding.problem == (
        "The queue default is paused, and 2 channel(s) of it wait, the longest for 10 min: tenant, default."
    )
    assert finding.action.endswith("manage.py pgqueue resume queue default.")
    queue_resume("default")
    assert set(found("waiting")) == {"paused", "waiting"}


def test_an_ordered_channel_that_a_failing_message_holds_for_long(found: Examine) -> None:
    worker("default")
    channel_set(channel="default", ordered=True)
    enqueue("h")
    enqueue("h")
    [delivery] = dequeue(limit=10)
    retry(delivery, errors=[{}], delays=[timedelta(hours=1)])
    assert found("waiting") == {}
    pass_time(minutes=10)
    finding = found("waiting")["held"]
    assert finding.severity.word == "warning"
    assert finding.problem == (
        "1 ordered channel(s) of the queue default wait for long, the longest for 10 min, behind a message that is "
        f"tried again, or waits for a shared limit: default (message {delivery.id})."
    )
    cancel(delivery.id)
    assert list(found("waiting")) == ["waiting"]
